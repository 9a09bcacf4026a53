// Drains and rolls, as the newest round says. They are begun and ended on the command line only.
import { byId, el, say, sentence, table } from "./dom.js";
import { ago, clock, span } from "./format.js";

const ADVISED = new Set(["drained", "blocked", "halted", "refused"]);
const ENDED = new Set(["done", "cancelled", "refused"]);
let shown = "";

export function showIntents(found) {
  byId("intents").hidden = !found.length;
  const key = JSON.stringify(found);
  if (key !== shown) {
    shown = key;
    byId("intents-list").replaceChildren(...found.map(one));
  }
  for (const status of found) say(byId(`intent-${status.id}`), when(status));
}

function one(status) {
  const words = el("p", { class: "words" }), parts = [el("p", { id: `intent-${status.id}`, class: "hint" }), words];
  sentence(words, `${status.text}.${ADVISED.has(status.state) ? ` ${status.advice}` : ""}`);
  if (status.total && !ENDED.has(status.state)) parts.push(el("progress", { max: status.total, value: status.total - status.left, "aria-label": `${status.what}: bundles that have left` }));
  const brokers = Object.entries(status.phases);
  if (brokers.length && !ENDED.has(status.state)) parts.push(el("details", {}, el("summary", { text: "Brokers of the roll" }), el("div", { class: "wide" }, table(["Broker", "Phase"], brokers))));
  return el("div", { class: "plan", "data-state": status.state }, ...parts);
}

function when(status) {
  const left = status.left_ms ? `, about ${span(status.left_ms)} left` : "";
  const end = status.until_ms && !ENDED.has(status.state) ? `, until ${clock(status.until_ms)} UTC` : "";
  return `${status.what}: ${status.state}, ${ago(status.since_ms)}${left}${end}; ${status.by}: ${status.reason}`;
}
