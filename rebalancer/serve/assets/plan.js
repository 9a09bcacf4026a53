// The plan that waits for an executor.
import { byId, el, table } from "./dom.js";
import { points, short, until } from "./format.js";

const FEW = 50;
let all = false;

export function showPlan(one) {
  const box = byId("plan"), waiting = one.waiting;
  const head = el("div", { class: "head" }, el("h2", { id: "plan-title", text: "Waiting plan" }));
  if (!waiting.length) {
    const done = one.newest && one.newest.round !== undefined;
    box.replaceChildren(head, el("p", { class: "hint", text: done ? "No command waits. A plan appears here as soon as a round decides one." : "A plan appears here as soon as a round decides one." }));
    return;
  }
  const first = waiting[0], last = waiting[waiting.length - 1];
  const soonest = Math.min(...waiting.map((command) => command.expires_at_ms));
  head.append(el("p", { class: "hint", text: `${first.round === last.round ? `round ${first.round}` : `rounds ${first.round} to ${last.round}`}, ${until(soonest)}` }));
  const shown = all ? waiting : waiting.slice(0, FEW);
  const rows = shown.map((command) => [`${command.action} ${command.bundle}`, short(command.source), command.destination ? short(command.destination) : "a broker that Pulsar chooses", expected(command), command.text]);
  const list = table(["Bundle", "From", "To", "Expected usage", "Why"], rows);
  list.className = "moves-in-plan";
  const more = waiting.length > shown.length ? el("button", { type: "button", text: `Show all ${waiting.length}`, onclick: () => { all = true; showPlan(one); } }) : null;
  box.replaceChildren(head, el("div", { class: "wide" }, list), el("div", { class: "actions" }, more));
}

function expected(command) {
  const [before, after, to, then] = command.expected;
  const part = (a, b) => (a === null || b === null ? "" : `${points(a)} → ${points(b)} %`);
  return [part(before, after), part(to, then)].filter(Boolean).join("; ") || "–";
}
