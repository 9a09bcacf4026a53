// The plans that wait, and what people decide about them. Nothing is decided without a person's name and reason.
import { byId, el, say, sentence, table } from "./dom.js";
import { send } from "./api.js";
import { ago, clock, counted, points, short, until } from "./format.js";

const FEW = 12;
const DONE = { approve: "approved", deny: "denied", pause: "paused", resume: "resumed" };
const opened = new Set();  // plans whose commands are all shown
let shown = "", around = null;

export function showPlans(found, given) {
  around = given;
  const box = byId("plan"), key = JSON.stringify([found.open, found.decided, found.pause, found.pause_asked, found.required, given.person.role, given.cluster, [...opened]]);
  tick(found);
  if (key === shown) return;
  shown = key;
  const draft = box.querySelector("input")?.value || "", at = document.activeElement?.id;
  const head = el("div", { class: "head" }, el("h2", { id: "plan-title", text: found.open.length > 1 ? "Waiting plans" : "Waiting plan" }), el("p", { id: "plan-when", class: "hint" }));
  const parts = found.open.length ? found.open.map((plan) => onePlan(plan, found)) : [el("p", { class: "hint", text: "No plan waits. One appears here as soon as a round decides commands." })];
  box.replaceChildren(head, ...parts, controls(found), problem(), ...decided(found));
  tick(found);
  if (box.querySelector("input")) box.querySelector("input").value = draft;
  if (at) byId(at)?.focus();
}

function tick(found) {
  const first = found.open[0];
  if (byId("plan-when")) say(byId("plan-when"), first ? `plan ${first.id}, ${until(first.expires_at_ms)}` : "");
}

function onePlan(plan, found) {
  const all = opened.has(plan.id), rows = all ? plan.commands : plan.commands.slice(0, FEW);
  const list = table(["Bundle", "From", "To", "Expected usage", "Why"], rows.map((command) => [
    `${command.action} ${command.bundle}`, short(command.source), command.destination ? short(command.destination) : "a broker that Pulsar chooses", expected(command),
    command.outcome ? `${command.outcome}; ${command.text}` : command.text]));
  list.className = "moves-in-plan";
  const more = plan.total > rows.length && !all
    ? el("button", { type: "button", class: "plain", text: `Show all ${plan.commands.length}`, onclick: () => { opened.add(plan.id); shown = ""; showPlans(found, around); } }) : null;
  const left = plan.total > plan.commands.length && all ? el("p", { class: "hint", text: `and ${plan.total - plan.commands.length} more commands` }) : null;
  return el("div", { class: "plan" }, el("p", { class: "words", text: words(plan, found) }), el("div", { class: "wide" }, list), more, left,
    ...plan.refused.slice(-2).map((one) => el("p", { class: "hint", text: `${one.by} ${DONE[one.action]} it (${clock(one.ts)}), which does not count: ${one.answer}` })));
}

function words(plan, found) {
  const what = `Round ${plan.round} wants ${counted(plan.total, "command")}` + (plan.spread_before === null ? "" : `; the spread would fall from ${points(plan.spread_before)} to ${points(plan.spread_after)} points`);
  const decision = plan.decision;
  if (decision && decision.status === "accepted") return `${what}. ${decision.by} ${DONE[decision.action]} it: ${decision.reason || "no reason is known"}. The executor carries it out.`;
  if (decision) return `${what}. ${decision.by} ${DONE[decision.action]} it ${ago(decision.ts)}: ${decision.reason}. The executor has not answered yet.`;
  return found.required ? `${what}. It waits for a person to approve it.` : `${what}. Executors apply it without an approval (executor.approval = none).`;
}

function expected(command) {
  const [before, after, to, then] = command.expected;
  const part = (a, b) => (a === null || b === null ? "" : `${points(a)} → ${points(b)} %`);
  return [part(before, after), part(to, then)].filter(Boolean).join("; ") || "–";
}

// Approve and deny where executors wait for approvals; pause and resume always.
function controls(found) {
  const why = around.person.may_operate ? found.why_not : found.why_not || around.person.why_not;
  const plan = found.open.find((one) => one.state === "waiting" && !one.decision && one.complete);
  const paused = Boolean(found.pause?.paused), order = paused ? "resume" : "pause";
  const reason = el("input", { id: "reason", type: "text", maxlength: 500, placeholder: "Reason, for the record", "aria-label": "Reason, for the record", disabled: Boolean(why) });
  const button = (id, text, action, primary, off) => el("button", { id, type: "button", text, class: primary ? "primary" : false, disabled: Boolean(why) || off, "aria-describedby": why ? "why-not" : false,
    onclick: () => decide(action, action === "approve" || action === "deny" ? plan?.id : "", reason) });
  const about = found.required && plan ? [button("approve", "Approve the plan", "approve", true, false), button("deny", "Deny it", "deny", false, false)] : [];
  const waits = found.pause_asked ? el("p", { class: "hint", text: `${found.pause_asked.by} asked the executor to ${found.pause_asked.action} ${ago(found.pause_asked.ts)}: ${found.pause_asked.reason}. It has not answered yet.` }) : null;
  const note = why ? el("p", { id: "why-not", class: "hint" }) : null;
  if (note) sentence(note, why.replaceAll(/((?:serve|signing|executor)\.[a-z_]+)/g, "`$1`"));
  return el("div", {}, el("div", { class: "actions" }, reason, ...about, button("pause", paused ? "Resume the executor" : "Pause the executor", order, false, false)), waits, note);
}

const problem = () => el("p", { id: "plan-problem", class: "warning", role: "alert" });

async function decide(action, plan, reason) {
  const text = reason.value.trim();
  if (!text) { say(byId("plan-problem"), "Write a reason first; it stands on the record with your name."); reason.focus(); return; }
  const answer = await send("POST", `plans?${new URLSearchParams({ cluster: around.cluster })}`, { action, plan, reason: text }).catch((error) => error);
  if (answer instanceof Error) { say(byId("plan-problem"), answer.message); return; }
  reason.value = "";
  say(byId("said"), `You ${DONE[action]} ${plan ? `plan ${plan}` : "the executor"}.`);
  await around.again();
}

function decided(found) {
  if (!found.decided.length) return [];
  return [el("details", {}, el("summary", { text: `Decided before (${found.decided.length})` }), ...found.decided.map((plan) => {
    const one = plan.decision || plan.refused[0];
    return el("p", { class: "hint", text: `Plan ${plan.id} of round ${plan.round}: ${plan.state}. ${one ? `${one.by} ${DONE[one.action]} it at ${clock(one.ts)}${one.reason ? `: ${one.reason}` : ""}${one.answer ? ` (${one.answer})` : ""}.` : ""}` });
  }))];
}
