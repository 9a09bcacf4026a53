// The rounds, newest first, each with its state and reason.
import { byId, el } from "./dom.js";
import { ANSWERS, clock, counted, points, stateOf } from "./format.js";
import { VirtualList } from "./virtual.js";

const phone = matchMedia("(max-width: 700px)");
let list = null, rounds = new Map(), ordered = [];

export function showHistory(found, ask, whole) {
  list ||= new VirtualList(byId("history"), () => (phone.matches ? 56 : 36), (item) => row(item, ask));
  if (whole) rounds = new Map();
  for (const one of found.rounds) rounds.set(`${one.epoch}.${one.round}`, one);
  const oldest = found.oldest || [0, 0];
  ordered = [...rounds.values()].filter((one) => one.epoch > oldest[0] || (one.epoch === oldest[0] && one.round >= oldest[1]))
    .sort((a, b) => b.epoch - a.epoch || b.round - a.round);
  rounds = new Map(ordered.map((one) => [`${one.epoch}.${one.round}`, one]));
  refresh();
}

export function refresh() {
  const only = byId("only-moves").checked;
  list?.set(only ? ordered.filter((one) => one.commands) : ordered);
}

function row(one, ask) {
  const [label, level] = stateOf(one.state);
  const answers = Object.entries(one.answers).map(([answer, count]) => chip(answer, count));
  const what = one.commands ? answers.length ? answers : [el("span", { class: "chip", text: counted(one.commands, "command") })] : [el("small", { text: `spread ${points(one.spread)}` })];
  return el("button", { type: "button", class: "row round", title: one.text, onclick: () => ask(String(one.round), one.epoch),
    "aria-label": `Round ${one.round}, ${clock(one.ts)}: ${label}. ${one.text}. ${Object.entries(one.answers).map(([answer, count]) => `${count} ${ANSWERS[answer][0]}`).join(", ")}` },
  el("span", { text: clock(one.ts) }), el("span", { class: "number hint", text: `#${one.round}` }), tag(label, level), el("span", { class: "text", text: one.text }), el("span", { class: "right" }, ...what));
}
function tag(label, level) {
  const made = el("span", { class: "tag", text: label.replace("Waiting for evidence", "Waiting") });
  made.dataset.level = level;
  return made;
}
function chip(answer, count) {
  const made = el("span", { class: "chip", text: `${count} ${ANSWERS[answer][0]}` });
  made.style.color = `var(${ANSWERS[answer][1]})`;
  return made;
}
