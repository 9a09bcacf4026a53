// The plans that wait, and what people decide about them. Nothing is decided without a person's name and reason.
import { byId, el, say, sentence, table } from "./dom.js";
import { send } from "./api.js";
import { ago, clock, counted, earlier, points, short, until } from "./format.js";

const FEW = 12;
const DONE = { approve: "approved", deny: "denied", pause: "paused", resume: "resumed" };
const opened = new Set();  // plans whose commands are all shown
const mine = new Map();  // what this page has decided and its server has not read yet: plan → action
let shown = "", around = null;

export function showPlans(found, given) {
  around = given;
  const box = byId("plan"), key = JSON.stringify([found.open, found.decided, found.pause, found.pause_asked, found.required, given.person.role, given.cluster, [...opened], [...mine]]);
  tick(found);
  if (key === shown) return;
  shown = key;
  const drafts = [...box.querySelectorAll("input")].map((input) => [input.id, input.value]), at = document.activeElement?.id;
  for (const plan of found.open) if (plan.decision || plan.refused.length) mine.delete(plan.id);
  const head = el("div", { class: "head" }, el("h2", { id: "plan-title", text: found.open.length > 1 ? "Waiting plans" : "Waiting plan" }));
  const parts = found.open.length ? found.open.map((plan) => onePlan(plan, found)) : [el("p", { class: "hint", text: "No plan waits. One appears here as soon as a round decides commands." })];
  // Without tokens, and where executors wait for no approval, there are no buttons.
  const buttons = found.required || found.pause || found.pause_asked || !found.why_not ? [whyNot(found), pause(found)] : [];
  box.replaceChildren(head, ...parts, problem(), ...buttons, ...decided(found));
  tick(found);
  for (const [id, value] of drafts) if (byId(id)) byId(id).value = value;
  if (at) byId(at)?.focus();
}

function tick(found) {
  for (const plan of found.open) { const when = byId(`when-${plan.id}`); if (when) say(when, `plan ${plan.id}, ${until(plan.expires_at_ms)}`); }
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
  return el("div", { class: "plan", "data-plan": plan.id }, el("p", { id: `when-${plan.id}`, class: "hint" }), el("p", { class: "words", text: words(plan, found) }), el("div", { class: "wide" }, list), more, left,
    decision(plan, found),
    ...plan.refused.slice(-2).map((one) => el("p", { class: "hint", text: `${one.by} ${DONE[one.action]} it (${clock(one.ts)}), which does not count: ${one.answer}` })));
}

function words(plan, found) {
  const what = `Round ${plan.round} wants ${counted(plan.total, "command")}` + (plan.spread_before === null ? "" : `; the spread would ${plan.spread_after > plan.spread_before ? "rise" : "fall"} from ${points(plan.spread_before)} to ${points(plan.spread_after)} points${earlier(plan.counted)}`);
  if (mine.has(plan.id)) return `${what}. You ${DONE[mine.get(plan.id)]} it. The executor has not answered yet.`;
  const decision = plan.decision;
  if (decision && decision.status === "accepted") return `${what}. ${decision.by} ${DONE[decision.action]} it: ${decision.reason || "no reason is known"}. The executor carries it out.`;
  if (decision) return `${what}. ${decision.by} ${DONE[decision.action]} it ${ago(decision.ts)}: ${decision.reason}. The executor has not answered yet.`;
  return found.required ? `${what}. It waits for a person to approve it.` : `${what}. An executor that runs with --apply needs no approval for it (executor.approval = none).`;
}

function expected(command) {
  const [before, after, to, then] = command.expected;
  const part = (a, b) => (a === null || b === null ? "" : `${points(a)} → ${points(b)} %`);
  return [part(before, after), part(to, then)].filter(Boolean).join("; ") || "–";
}

const whyOff = (found) => (around.person.may_operate ? found.why_not : found.why_not || around.person.why_not);

// A reason and its buttons: `choices` are [action, text, label].
function form(id, plan, off, choices) {
  const reason = el("input", { id: `reason-${id}`, type: "text", maxlength: 500, placeholder: "Reason, for the record", "aria-label": `Reason: ${choices.map((one) => one[2]).join(", or ")}`, disabled: off });
  const buttons = choices.map(([action, text, label]) => el("button", { id: `${action}-${id}`, type: "button", text, "aria-label": label, class: action === "approve" ? "primary" : false, disabled: off, "aria-describedby": off ? "why-not" : false,
    onclick: () => decide(action, plan, reason) }));
  return el("div", { class: "actions" }, reason, ...buttons);
}

// Approve and deny, where executors wait for approvals: each plan has buttons of its own.
function decision(plan, found) {
  if (!found.required || plan.state !== "waiting" || plan.decision || mine.has(plan.id)) return null;
  if (!plan.complete) return el("p", { class: "hint", text: "Some of its commands have not arrived yet." });
  return form(plan.id, plan.id, Boolean(whyOff(found)), [["approve", "Approve the plan", `Approve plan ${plan.id}`], ["deny", "Deny it", `Deny plan ${plan.id}`]]);
}

function pause(found) {
  const paused = Boolean(found.pause?.paused), asked = found.pause_asked;
  const waits = asked ? el("p", { class: "hint", text: `${asked.by} asked the executor to ${asked.action} ${ago(asked.ts)}: ${asked.reason}. It has not answered yet.` }) : null;
  const choice = paused ? ["resume", "Resume the executor", "Resume the executor"] : ["pause", "Pause the executor", "Pause the executor"];
  return el("div", { class: "pause" }, form("executor", "", Boolean(whyOff(found)), [choice]), waits);
}

function whyNot(found) {
  const why = whyOff(found), note = why ? el("p", { id: "why-not", class: "hint" }) : null;
  if (note) sentence(note, why.replaceAll(/((?:serve|signing|executor)\.[a-z_]+)/g, "`$1`"));
  return note || el("span", { hidden: true });
}

const problem = () => el("p", { id: "plan-problem", class: "warning", role: "alert" });

async function decide(action, plan, reason) {
  const text = reason.value.trim();
  if (!text) { say(byId("plan-problem"), "Write a reason first; it stands on the record with your name."); reason.focus(); return; }
  const answer = await send("POST", `plans?${new URLSearchParams({ cluster: around.cluster })}`, { action, plan, reason: text }).catch((error) => error);
  if (answer instanceof Error) {  // what the page shows may be old
    await around.again();
    say(byId("plan-problem"), answer.message);
    return;
  }
  reason.value = "";
  if (plan) mine.set(plan, action);
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
