// Usage over time: lines (of each broker, or of the highest, median and lowest), and a map of all brokers.
import { byId, breath, el, svg, table } from "./dom.js";
import { clock, counted, day, hour, percent, short } from "./format.js";
import { CellMap, cividis } from "./canvas.js";

const LEVELS = [["highest", 1], ["90 %", 3], ["median", 0], ["10 %", 5], ["lowest", 2]];
const UNKNOWN = 255, STEPS = 200;
const COLOURS = Array.from({ length: 256 }, (_, value) => (value === UNKNOWN ? [0, 0, 0, 0] : [...cividis(value / STEPS), 255]));
let map = null, shown = null, cells = null;

export async function showUsage(found, ask) {
  shown = found;
  cells = Uint8Array.from(atob(found.cells), (character) => character.charCodeAt(0));
  const few = found.lines.length > 0;
  const series = few ? found.lines.map((line, place) => [short(found.rows[place].name), place, line])
    : LEVELS.map(([name, tone], place) => [name, tone, found.levels.map((levels) => (levels ? levels[place] : null))]);
  map ||= new CellMap(byId("heat"), { label: "", text: cellText, choose: (row) => ask(shown.rows[row].name) });
  drawMap(found);
  await breath();
  drawLines(series, found.times, found.rows.length ? map.place().left : 42);
  byId("legend").replaceChildren(...series.map(([name, tone]) => entry(name, `var(--c${tone % 8})`)));
  const grouped = found.rows.some((row) => row.count > 1);
  const total = found.rows.reduce((sum, row) => sum + row.count, 0);
  byId("usage-note").textContent = found.times.length
    ? `${counted(found.times.length, "round")}, yellow is full${grouped ? `; each row is the highest of ${Math.ceil(total / found.rows.length)} brokers` : ""}` : "No round yet.";
  tableOf(found);
}

export const entry = (name, tone) => {
  const dot = el("i");
  dot.style.setProperty("--dot", tone);
  return el("span", {}, dot, name);
};

function drawLines(series, times, left) {
  const box = byId("lines"), width = Math.max(320, box.clientWidth), height = 170, bottom = 20;
  const values = series.flatMap(([, , line]) => line.filter((value) => value !== null));
  const most = Math.max(1000, ...values.reduce((best, value) => (value > best[0] ? [value] : best), [0]));
  const across = (place) => left + ((place + 0.5) / times.length) * (width - left), down = (value) => 6 + (1 - value / most) * (height - bottom - 6);
  const parts = [];
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const y = down(share * most);
    parts.push(svg("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }), svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, `${Math.round((share * most) / 10)} %`));
  }
  const marks = Math.max(2, Math.floor((width - left) / 120)), long = times.length > 1 && times[times.length - 1] - times[0] > 86_400_000;
  for (let mark = 0; mark < Math.min(marks, times.length); mark += 1) {
    const place = Math.round(((times.length - 1) * mark) / Math.max(1, Math.min(marks, times.length) - 1));
    const anchor = mark === 0 ? "start" : mark === marks - 1 ? "end" : "middle";
    parts.push(svg("text", { x: mark === 0 ? left : across(place), y: height - 4, "text-anchor": anchor }, (long ? day : hour)(times[place])));
  }
  for (const [name, tone, line] of series) {
    const path = pathOf(line, across, down);
    parts.push(svg("path", { d: path, fill: "none", stroke: `var(--c${tone % 8})`, "stroke-width": "2", "stroke-linejoin": "round", "stroke-dasharray": tone > 7 ? "5 3" : false }, svg("title", {}, name)));
    const last = line.length - 1;
    if (line.filter((value) => value !== null).length === 1 && line[last] !== null) parts.push(svg("circle", { cx: across(last), cy: down(line[last]), r: 3, fill: `var(--c${tone % 8})` }));
  }
  const label = `Usage over ${counted(times.length, "round")}: ${series.slice(0, 12).map(([name, , line]) => `${name} now ${percent(line[line.length - 1])}`).join(", ")}`;
  box.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...parts));
}

function pathOf(line, across, down) {
  let path = "", open = false;
  line.forEach((value, place) => {
    if (value === null) { open = false; return; }
    path += `${open ? "L" : "M"}${across(place).toFixed(1)} ${down(value).toFixed(1)}`;
    open = true;
  });
  return path;
}

function drawMap(found) {
  const rows = found.rows.length, columns = found.times.length;
  const rowHeight = rows <= 20 ? 16 : rows <= 60 ? 12 : Math.max(1, Math.round(300 / rows));
  const long = columns > 1 && found.times[columns - 1] - found.times[0] > 86_400_000;
  map.set({
    rows, columns, rowHeight, rowLabel: rowName, columnLabel: (column) => (long ? day : hour)(found.times[column]),
    label: `Map of usage: ${rows} rows of brokers, ${columns} rounds. Arrow keys walk through it, Enter asks about a broker.`,
    pixels: (data) => { for (let place = 0; place < cells.length; place += 1) data.set(COLOURS[cells[place]], 4 * place); },
  });
}

const rowName = (row) => (shown.rows[row].count > 1 ? `${short(shown.rows[row].name)} … ${short(shown.rows[row].last)}` : short(shown.rows[row].name));

function cellText(row, column) {
  const value = cells[row * shown.times.length + column], group = shown.rows[row];
  const usage = value === UNKNOWN ? "no fresh figures" : value === UNKNOWN - 1 ? "127 % or more" : `${group.count > 1 ? "at most " : ""}${((100 * value) / STEPS).toFixed(1)} %`;
  return `${rowName(row)}: ${usage}\nround ${shown.rounds[column][1]}, ${clock(shown.times[column])}`;
}

// The table for screen readers is made when it is opened.
function tableOf(found) {
  const details = byId("usage-table"), box = details.querySelector("div");
  const make = () => {
    const columns = found.times.length, places = [...new Set([0, Math.floor(columns / 2), columns - 1])].filter((place) => place >= 0 && place < columns);
    const cell = (row, column) => { const value = cells[row * columns + column]; return value === UNKNOWN ? "–" : `${((100 * value) / STEPS).toFixed(1)} %`; };
    box.replaceChildren(table(["Broker", ...places.map((place) => clock(found.times[place]))], found.rows.map((_, row) => [rowName(row), ...places.map((place) => cell(row, place))]), ["", "right", "right", "right"]));
  };
  details.ontoggle = () => { if (details.open) make(); };
  if (details.open) make();
}
