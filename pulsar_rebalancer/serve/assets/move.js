// Moves by hand: buttons that operators see, and the dialog that shows what would happen before it asks for moves.
import { byId, el, say, sentence, table } from "./dom.js";
import { send } from "./api.js";
import { counted, now, percent, points, short } from "./format.js";

const KINDS = { waits: "caution", refused: "warning", stays: false };
const BUNDLE = /^[^/\s]+\/[^/\s]+(\/[^/\s]+)?\/0x[0-9a-f]{8}_0x[0-9a-f]{8,9}$/i;
const CALM_MS = 200;  // arrow keys walk through destinations
export const isBundle = (name) => BUNDLE.test(name);
let around = null;  // cluster, person, brokers now, who pauses the executor, and what to do when something was asked for
let wanted = null, cluster = "", moves = [], newest = 0;

export const setAround = (given) => { around = { ...around, ...given }; };

const button = (text, label, onclick) => (around?.person.may_operate ? el("button", { type: "button", class: "plain", text, "aria-label": label, onclick }) : null);
export const moveButton = (bundle, text = "Move…") => button(text, `Move ${bundle}`, () => open("Move a bundle", bundle, { action: "move", moves: [{ bundle, to: null }] }));
export const undoButton = (found) => (found ? button(`Undo ${counted(found.moves, "move")}…`, `Undo the moves of round ${found.round}`, () => open(`Undo round ${found.round}`, "Its bundles go back to where they were, those that are still where the round moved them.", { action: "undo", epoch: found.epoch, round: found.round })) : null);

function open(title, what, asked) {
  const chooses = asked.action === "move", { names, usage } = around.brokers;
  wanted = asked;
  cluster = around.cluster;
  say(byId("ask-title"), title);
  say(byId("ask-what"), what);
  byId("ask-where").hidden = !chooses;
  byId("ask-to").replaceChildren(el("option", { value: "", text: "Any broker: the next round chooses" }), ...names.map((name, place) => el("option", { value: name, text: `${short(name)}, now at ${percent(usage[place])}` })).reverse());
  byId("ask").showModal();
  byId(chooses ? "ask-to" : "ask-reason").focus();
  preview();
}

const post = (name, body) => send("POST", `${name}?${new URLSearchParams({ cluster })}`, body).catch((error) => error);

// The answer to the newest question counts: the destination may change while the server reads.
async function preview() {
  const asked = ++newest;
  if (wanted.action === "move") wanted.moves = [{ ...wanted.moves[0], to: byId("ask-to").value || null }];
  moves = [];
  ready();
  say(byId("ask-problem"), "");
  byId("ask-preview").replaceChildren(el("p", { class: "hint", text: "Reading the newest reports …" }));
  await new Promise((resolve) => setTimeout(resolve, CALM_MS));
  const found = asked === newest && await post("preview", wanted);
  if (asked !== newest) return;
  if (found instanceof Error) { byId("ask-preview").replaceChildren(line(found.message, "warning")); return; }
  moves = found.moves.filter((one) => one.state === "moves" || one.state === "waits").map((one) => ({ bundle: one.bundle, to: one.to || one.asked_to }));
  byId("ask-preview").replaceChildren(...shown(found));
  ready();
}

function ready() {
  byId("ask-yes").disabled = !moves.length;
  say(byId("ask-yes"), moves.length > 1 ? `Move ${moves.length} bundles` : "Move it");
}

function line(text, kind = false) {
  const made = el("p", { class: kind });
  sentence(made, text);
  return made;
}

function shown(found) {
  const going = found.moves.filter((one) => one.state === "moves"), others = found.moves.filter((one) => one.state !== "moves"), parts = [], alone = wanted.action === "move";
  const basis = found.measured ? `as ${counted(found.measured, "measured move")} had` : "assumed: no move is measured yet";
  const usage = (one, at) => (one.before[at] === null || one.after[at] === null ? "" : `${points(one.before[at])} → ${points(one.after[at])} %`);
  const to = (one) => (one.to ? short(one.to) : "a broker that Pulsar chooses"), pause = (one) => `${(one.pause_ms / 1000).toFixed(2)} s`;
  if (going.length === 1) {
    const [one] = going;
    parts.push(line(`The next round moves ${alone ? "it" : one.bundle} from ${short(one.from)} to ${to(one)}${one.asked_to ? "" : ", which fits best now"}.`));
    if (usage(one, 0)) parts.push(line(`Expected usage: ${short(one.from)} ${usage(one, 0)}${usage(one, 1) ? `, ${to(one)} ${usage(one, 1)}` : ""}.`));
    parts.push(line(`Clients of its ${counted(one.topics, "topic")} (${(one.throughput / 2 ** 20).toFixed(1)} MiB/s) will notice a pause of about ${pause(one)} (${basis}).`));
  } else if (going.length) {
    const rows = table(["Bundle", "From", "To", "Pause"], going.map((one) => [one.bundle, `${short(one.from)}, ${usage(one, 0)}`, `${to(one)}, ${usage(one, 1)}`, pause(one)]));
    rows.className = "moves-in-plan";
    parts.push(line(`The next round moves ${going.length} bundles, with this expected usage. Clients will notice a pause of each (${basis}).`), el("div", { class: "wide" }, rows));
  }
  const alike = new Map();  // the bundles that stay for the same reason
  for (const one of others) { const why = `${one.state === "waits" ? "would wait" : "stays"}: ${one.text}.${one.state === "stays" ? "" : ` ${one.advice}`}`; alike.set(why, [...(alike.get(why) || []), one]); }
  for (const [why, [first, ...more]] of alike) parts.push(line(`${alone ? "It" : `${first.bundle}${more.length ? ` and ${more.length} more` : ""}`} ${why}`, KINDS[first.state]));
  if (moves.length && found.approval) parts.push(line(`Then a person has to approve ${moves.length === 1 ? "the command" : "the commands"}: \`executor.approval = required\`.`));
  if (moves.length && around.paused) parts.push(line(`The executor refuses commands now: ${around.paused}.`, "caution"));
  if (moves.length && now() > around.late_after_ms) parts.push(line("Only rounds move bundles, and there is no newer one: check with `rebalancer doctor` that `rebalancer run` and `rebalancer collect` run.", "caution"));
  return [...parts, ...found.notes.map((text) => line(text, "caution"))];
}

byId("ask-to").addEventListener("change", preview);
byId("ask-no").addEventListener("click", () => byId("ask").close());
byId("ask").addEventListener("close", () => { newest += 1; byId("ask-reason").value = ""; });
byId("ask-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const reason = byId("ask-reason").value.trim();
  if (!moves.length) return;
  if (!reason) { say(byId("ask-problem"), "Write a reason first; it stands on the record with your name."); byId("ask-reason").focus(); return; }
  byId("ask-yes").disabled = true;
  const answer = await post("intents", { action: "move", moves, reason });
  ready();
  if (answer instanceof Error) { say(byId("ask-problem"), answer.message); return; }
  byId("ask").close();
  say(byId("said"), `You asked for ${counted(answer.moves.length, "move")}.`);
  around.asked(answer, reason);
});
