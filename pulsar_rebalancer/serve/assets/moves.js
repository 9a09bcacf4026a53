// Bundles × time: which bundles had commands, when, and what happened to them.
import { byId, colour, el, table } from "./dom.js";
import { ANSWERS, clock, counted, day, hour } from "./format.js";
import { CellMap } from "./canvas.js";
import { moveButton } from "./move.js";
import { entry } from "./usage.js";

const FEW = 40;
const NARROWEST = 24;
const phone = matchMedia("(max-width: 700px)");
// The namespace without its tenant, and the lower end of the range: shop/orders/0x28000000_0x29000000 → orders/0x28000000
const brief = (bundle) => bundle.split("/").slice(-2).join("/").replace(/_0x[0-9a-f]+$/i, "");
let map = null, shown = null, at = new Map(), all = false, from = 0;

export function showMoves(found, ask) {
  shown = found;
  at = new Map(found.cells.map((cell) => [cell[0] * 4096 + cell[1], cell]));
  const rows = all ? found.rows.length : Math.min(FEW, found.rows.length);
  byId("moves").hidden = byId("moves-table").hidden = !rows;
  byId("moves-note").textContent = found.rows.length
    ? `${counted(found.total, "bundle")} with commands in ${counted(found.columns.length, "column")} of time, the newest first`
    : "No command yet in the rounds that are kept. Bundles appear here as soon as a round moves one.";
  legend(found, ask, rows);
  if (!rows) return;
  map ||= new CellMap(byId("moves"), { label: "", text: cellText, choose: (row) => ask(shown.rows[row].bundle) });
  draw(found, rows);
  tableOf(found);
}

function legend(found, ask, rows) {
  const used = [...new Set(found.cells.map((cell) => found.answers[cell[3]]))];
  const parts = used.map((answer) => entry(ANSWERS[answer][0], `var(${ANSWERS[answer][1]})`));
  if (found.rows.length > FEW) parts.push(el("button", { type: "button", class: "plain", text: all ? `Show ${FEW}` : `Show ${found.rows.length}`, onclick: () => { all = !all; showMoves(found, ask); } }));
  byId("moves-legend").className = "legend squares";
  byId("moves-legend").replaceChildren(...parts);
  void rows;
}

function draw(found, rows) {
  from = firstColumn(found, rows);
  const columns = found.columns.length - from, tones = found.answers.map((answer) => rgb(colour(ANSWERS[answer][1]))), empty = rgb(colour("--track"));
  const long = columns > 1 && found.until_ms - found.columns[from][0] > 86_400_000;
  map.set({
    rows, columns, rowHeight: 16, rowLabel: (row) => (phone.matches ? brief(shown.rows[row].bundle) : shown.rows[row].bundle), columnLabel: (column) => (long ? day : hour)(found.columns[column + from][0]),
    label: `Map of commands: ${rows} bundles, ${columns} columns of time. Arrow keys walk through it, Enter asks about a bundle.`,
    pixels: (data) => {
      for (let place = 0; place < rows * columns; place += 1) data.set([...empty, place % columns % 2 ? 90 : 130], 4 * place);
      for (const [row, column, , answer] of found.cells) if (row < rows) data.set([...tones[answer], 255], 4 * (row * columns + column - from));
    },
  });
}

// The newest bundles have no commands long ago: the map begins shortly before their first one.
function firstColumn(found, rows) {
  const first = found.cells.reduce((least, [row, column]) => (row < rows ? Math.min(least, column) : least), found.columns.length);
  return Math.max(0, Math.min(first - 2, found.columns.length - NARROWEST));
}

function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function cellText(row, shownColumn) {
  const column = shownColumn + from, cell = at.get(row * 4096 + column), bundle = shown.rows[row].bundle;
  const what = cell ? `${counted(cell[2], "command")}, the newest ${ANSWERS[shown.answers[cell[3]]][0]}` : "no command";
  return `${bundle}\n${what}; round ${shown.columns[column][1]}, ${clock(shown.columns[column][0])}`;
}

function tableOf(found) {
  const details = byId("moves-table"), box = details.querySelector("div");
  const make = () => {
    const newest = new Map();
    for (const [row, , , answer] of found.cells) newest.set(row, answer);
    const rows = table(["Bundle", "Commands", "Newest", "Answer to it"], found.rows.map((row, place) => [el("span", {}, row.bundle, moveButton(row.bundle)), String(row.commands), clock(row.last_ms), ANSWERS[found.answers[newest.get(place)]]?.[0] || ""]), ["", "right", "", ""]);
    rows.className = "moves-in-plan";
    box.replaceChildren(rows);
  };
  details.ontoggle = () => { if (details.open) make(); };
  if (details.open) make();
}
