// Drains, rolls and moves by hand, as the newest round says, and what this page has asked for since.
import { byId, el, say, sentence, table } from "./dom.js";
import { ago, clock, counted, now, span } from "./format.js";

const ADVISED = new Set(["drained", "blocked", "halted", "cancelled", "refused"]);
const ENDED = new Set(["done", "cancelled", "refused"]);
const FEW = 4;  // ended ones that are shown without a click
const LONG_MS = 120_000;  // a round that closes later knows of a record
const mine = new Map();  // what this page has asked for and no round has answered yet: id → status
let shown = "", open = false;

export function asked(cluster, answer, reason) {
  for (const move of answer.moves) mine.set(move.id, { cluster, id: move.id, what: `move ${move.bundle}${move.to ? ` to ${move.to}` : ""}`, state: "asked", by: answer.by, reason, since_ms: now(), phases: {} });
}

export function showIntents({ cluster, intents: given, newest }) {
  for (const status of given) mine.delete(status.id);
  const waiting = [...mine.values()].filter((one) => one.cluster === cluster).map((one) => ({ ...one, ...unanswered(one, newest?.ts || 0) }));
  const lasting = [...waiting, ...given.filter((one) => !ENDED.has(one.state))], ended = given.filter((one) => ENDED.has(one.state)).reverse();
  const found = [...lasting, ...ended];
  byId("intents").hidden = !found.length;
  const key = JSON.stringify(found);
  if (key !== shown) {
    shown = key;
    const more = ended.slice(FEW).map(one);
    byId("intents-list").replaceChildren(...[...lasting, ...ended.slice(0, FEW)].map(one), ...(more.length ? [el("details", { open, ontoggle: (event) => { open = event.target.open; } }, el("summary", { text: `${counted(more.length, "more")} that ended within the last hour`.replace("mores", "more") }), ...more)] : []));
  }
  for (const status of found) say(byId(`intent-${status.id}`), when(status));
}

function unanswered(status, round_ms) {
  if (round_ms - status.since_ms < LONG_MS) return { text: "The next round begins with it", advice: "" };
  return { state: "blocked", text: "Rounds do not mention it", advice: "Check that the job has the key of this page in `signing.intents_key_file`, and the clock of this machine: `rebalancer doctor`." };
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
