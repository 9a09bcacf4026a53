// Brokers by usage now: a list of bars, and above it the profile of all brokers where there are many.
import { byId, el, svg } from "./dom.js";
import { counted, earlier, percent, short } from "./format.js";
import { VirtualList } from "./virtual.js";

const MANY = 30;
const phone = matchMedia("(max-width: 700px)");
let list = null, scale = 1000;

export function showBrokers(found, ask) {
  list ||= new VirtualList(byId("brokers"), () => (phone.matches ? 46 : 30), (item) => row(item, ask));
  scale = Math.max(1000, found.usage[0] || 0, ...found.after.slice(0, 50));
  list.set(found.names.map((name, place) => [name, found.usage[place], found.after[place], place + 1]));
  const moved = found.usage.reduce((sum, usage, place) => sum + (usage !== found.after[place] ? 1 : 0), 0);
  byId("brokers-note").textContent = found.names.length
    ? `${counted(found.names.length, "broker")}, the busiest first${moved ? `; the mark is the usage expected after the commands${earlier(found.counted)}` : ""}` : "The newest round has no figures.";
  byId("brokers").hidden = !found.names.length;
  profile(found);
  stale(found);
}

function row([name, usage, after, rank], ask) {
  const fill = el("i"), mark = el("b");
  fill.style.width = `${(100 * usage) / scale}%`;
  mark.style.left = `${(100 * after) / scale}%`;
  const figure = el("span", { class: "right" }, percent(usage), after !== usage ? el("small", { text: ` → ${percent(after)}` }) : null);
  return el("button", { type: "button", class: "row broker", title: name, "aria-label": `${rank}. ${name}: ${percent(usage)}${after !== usage ? `, ${percent(after)} expected` : ""}`, onclick: () => ask(name) },
    el("span", { class: "name", text: short(name) }), el("span", { class: "track" }, fill, after !== usage ? mark : null), figure);
}

// All brokers as one falling line; with few, the list itself shows it.
function profile(found) {
  const box = byId("profile"), count = found.usage.length;
  box.hidden = count <= MANY;
  if (box.hidden) return;
  const width = 500, height = 84, most = scale, steps = Math.min(count, width);
  const points = Array.from({ length: steps }, (_, step) => {
    const usage = found.usage[Math.round((step * (count - 1)) / Math.max(1, steps - 1))];
    return `${((step / Math.max(1, steps - 1)) * width).toFixed(1)},${(height - (usage / most) * height).toFixed(1)}`;
  });
  const middle = found.usage[Math.floor(count / 2)];
  const label = `All ${count} brokers by usage: highest ${percent(found.usage[0])}, median ${percent(middle)}, lowest ${percent(found.usage[count - 1])}`;
  box.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": label },
    svg("polygon", { points: `0,${height} ${points.join(" ")} ${width},${height}`, fill: "var(--c0)", "fill-opacity": "0.25" }),
    svg("polyline", { points: points.join(" "), fill: "none", stroke: "var(--c0)", "stroke-width": "2" }),
    svg("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" }),
    svg("text", { x: 0, y: height + 14 }, `highest ${percent(found.usage[0])}`),
    svg("text", { x: width / 2, y: height + 14, "text-anchor": "middle" }, `median ${percent(middle)}`),
    svg("text", { x: width, y: height + 14, "text-anchor": "end" }, `lowest ${percent(found.usage[count - 1])}`)));
}

function stale(found) {
  const names = Object.entries(found.stale);
  const lines = names.slice(0, 5).map(([name, why]) => el("p", { class: "hint", text: `${name} was left out: ${why}` }));
  if (found.stale_total > 5) lines.push(el("p", { class: "hint", text: `and ${found.stale_total - 5} more` }));
  byId("stale").replaceChildren(...lines);
}
