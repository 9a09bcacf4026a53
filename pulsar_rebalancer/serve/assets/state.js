// The first screen: state in words, figures, health of the processes.
import { byId, el, say, sentence } from "./dom.js";
import { ago, clock, counted, earlier, now, points, stateOf } from "./format.js";
import { lateness } from "./late.js";

const TITLES = { collector: "Collector", job: "Job", executor: "Executor" };

export function showState(one) {
  const newest = one.newest, [label, level] = stateOf(one.state?.code);
  const old = lateness(one.cluster, one.late_after_ms), late = old === "late", behind = old === "catching up", asks = one.asks.length;
  byId("verdict").dataset.level = late ? "bad" : behind ? "open" : one.paused ? "fair" : asks ? "open" : one.state ? level : "open";
  say(byId("badge"), late ? `✗ No newer round; it was: ${label.slice(2)}` : behind ? `ℹ Catching up; so far: ${label.slice(2)}` : one.paused ? `⏸ Paused. Without the pause: ${label.slice(2)}` : asks ? `◔ Waiting for approval; the newest round: ${label.slice(2)}` : label);
  sentence(byId("state"), one.state ? `${capital(one.state.text)}.` : one.empty);
  sentence(byId("advice"), late ? "Check with `rebalancer doctor` that `rebalancer run` and `rebalancer collect` run." : behind ? "Rounds about the past still arrive. Wait until the newest one is about the present." : one.paused ? `${capital(one.paused)}. Resume it to carry out plans.` : asks ? `Plan ${one.asks[0]} waits for a person: approve or deny it below.` : one.state?.advice || "");
  const since = one.since_ms ? `in this state since ${clock(one.since_ms).slice(0, 16)} (${counted(one.same, "round")})` : "";
  say(byId("newest"), newest ? `Round ${newest.round} of epoch ${newest.epoch}, ${ago(newest.ts)}${since ? `; ${since}` : ""}. ${newest.proves.join(" ")}` : "");
  tiles(one);
  health(one);
}
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function tiles(one) {
  const newest = one.newest;
  const judged = newest?.brokers ? points : () => "–";
  const shown = newest ? [
    ["Brokers judged", newest.brokers.toLocaleString("en"), newest.stale ? `${counted(newest.stale, "broker")} without fresh figures` : newest.brokers ? "all have fresh figures" : "the round has no figures"],
    ["Spread now", judged(newest.spread), "points between the busiest and the idlest broker"],
    ["Expected", judged(newest.spread_after), `points after the round's commands${earlier(newest.counted)}`],
    ...(newest.best_spread === null ? [] : [["Best possible", `${points(newest.best_spread)}`, "points or more, with whole bundles"]]),
    ["Commands waiting", one.waiting.toLocaleString("en"), one.waiting ? "no executor has answered them yet" : "nothing waits for an executor"],
    ["Rejected records", Object.values(one.rejected).reduce((sum, count) => sum + count, 0).toLocaleString("en"), Object.entries(one.rejected).slice(0, 2).map(([code, count]) => `${count} ${code}`).join(", ") || "none since the page started"],
  ] : [];
  fill(byId("tiles"), shown, () => el("div", {}, el("dt"), el("dd", { class: "figure" }), el("dd", { class: "meaning" })),
    (tile, texts) => [...tile.children].forEach((part, place) => say(part, texts[place])));
}

function health(one) {
  fill(byId("health"), one.health, () => el("article", { class: "process" }, el("h2", {}, el("span"), el("small")), el("p")), (card, process) => {
    const late = lateness(`${one.cluster} ${process.name}`, process.late_after_ms) === "late";
    const old = process.ts === null || now() - process.ts > 3_600_000;
    const level = process.doubt && !late ? "fair" : late ? "bad" : old ? "" : "good";
    card.dataset.level = level;
    say(card.querySelector("span"), TITLES[process.name]);
    say(card.querySelector("small"), process.ts === null ? "no sign yet" : ago(process.ts));
    sentence(card.querySelector("p"), late || (process.ts === null && process.name !== "executor") ? process.late : process.fresh);
  });
}

// Keeps the elements that are there, so that nothing flickers and focus stays.
function fill(box, items, make, write) {
  while (box.children.length > items.length) box.lastElementChild.remove();
  while (box.children.length < items.length) box.append(make());
  items.forEach((item, place) => write(box.children[place], item));
}
