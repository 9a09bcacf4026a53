// Starts the page: signs in, follows the changes, and draws what is new of the chosen cluster.
import { follow, get, Refused, send, setCsrf } from "./api.js";
import { breath, byId, el, say, sentence } from "./dom.js";
import { clock, setClock, setCommonEnding, stateOf } from "./format.js";
import { showBrokers } from "./brokers.js";
import { refresh, showHistory } from "./history.js";
import { asked, showIntents } from "./intents.js";
import { lateness } from "./late.js";
import { setAround } from "./move.js";
import { showMoves } from "./moves.js";
import { showPlans } from "./plan.js";
import { ask, close, known, setCluster } from "./search.js";
import { showState } from "./state.js";
import { showUsage } from "./usage.js";

const CALM_MS = 3000;  // between two looks at what changes with every report
let chosen = "", overview = null, decided = -1, version = -1, historyOf = 0, busy = false, again = false, source = null, list = null, looked = 0, person = null, server = "";

async function start() {
  const found = await get("session").catch((error) => error);
  if (found instanceof Refused && found.status === 401) return signIn();
  if (found instanceof Error) return link("bad", "no connection to the server", () => setTimeout(start, 3000));
  signedIn(found);
  return undefined;
}

function signedIn(found) {
  person = found;
  setCsrf(person.csrf);
  setAround({ person });
  byId("login").hidden = true;
  byId("search").hidden = false;
  byId("person").replaceChildren(...(person.signed_in ? [el("span", { text: `${person.name} (${person.role})` }), el("button", { type: "button", class: "plain", text: "Sign out", onclick: signOut })] : []));
  listen();
}

// A browser allows six connections to a server: hidden tabs give theirs back.
function listen() {
  source?.close();
  if (document.hidden) { link("", "waits while hidden"); return; }
  source = follow(news, lost);
}

function signIn(problem = "") {
  for (const id of ["page", "empty", "answer", "search", "clusters"]) byId(id).hidden = true;
  byId("notices").replaceChildren();
  byId("person").replaceChildren();
  byId("login").hidden = false;
  say(byId("login-error"), problem);
  link("", "signed out");
  byId("token").focus();
}

async function signOut() {
  source?.close();
  await send("DELETE", "session").catch(() => null);
  location.reload();
}

function link(level, text, then) {
  byId("link").dataset.level = level;
  say(byId("link"), text);
  then?.();
}

function lost(closed) {
  if (document.hidden) return;
  link("bad", "no connection, trying again");
  if (closed) setTimeout(start, 3000);  // refused, for example because the session has ended
}

async function news(found) {
  link("good", "live");
  if (found.process !== server) {  // another process counts versions from the beginning
    server = found.process;
    decided = version = -1;
    historyOf = 0;
  }
  const names = Object.keys(found.clusters);
  if (!names.includes(chosen)) choose(pick(names, (name) => found.clusters[name][1] > 0));
  const [newVersion, newDecided] = found.clusters[chosen] || [-1, -1];
  const topics = found.topics.map(String).join();
  if (newVersion !== version || newDecided !== decided || topics !== news.topics || names.length !== news.count) await update();
  news.topics = topics;
  news.count = names.length;
}

// The cluster of the address, else the first one with a decision.
function pick(names, isDecided = () => true) {
  const wanted = wantedName();
  return names.includes(wanted) ? wanted : names.find(isDecided) || names[0] || "";
}
function wantedName() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

function choose(name) {
  chosen = name;
  setCluster(name);
  decided = version = -1;
  historyOf = 0;
  overview = null;
  byId("answer").hidden = true;
  if (name) history.replaceState(null, "", `#${encodeURIComponent(name)}`);
}

// One update at a time; a message that comes meanwhile causes one more.
async function update() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      await draw();
    } while (again);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) signIn("The session has ended; sign in again.");
    else link("bad", error.message);
  } finally { busy = false; }
}

async function draw() {
  const calm = CALM_MS - (Date.now() - looked);
  if (calm > 0 && overview) await new Promise((resolve) => setTimeout(resolve, calm));
  looked = Date.now();
  list = await get("clusters");
  setClock(list.now_ms);
  picker(list);
  notices(list);
  const name = chosen;
  byId("page").hidden = !name;
  byId("empty").hidden = Boolean(name);
  if (!name) return empty(list);
  const [one, plans] = await Promise.all([get("cluster", { cluster: name }), get("plans", { cluster: name })]);
  overview = { ...one, asks: plans.required ? plans.open.filter((plan) => plan.state === "waiting" && !plan.decision).map((plan) => plan.id) : [] };
  if (name !== chosen) { again = true; return undefined; }
  version = overview.version;
  showState(overview);
  setAround({ paused: overview.paused, late_after_ms: overview.late_after_ms });
  showIntents(overview);
  byId("page").dataset.rounds = overview.kept ? "some" : "none";
  if (overview.decided !== decided) await drawDecisions(name, overview.decided);
  showPlans(plans, { cluster: name, person, again: () => { looked = 0; return update(); } });
  document.documentElement.dataset.drawn = String(overview.version);
  return undefined;
}

async function drawDecisions(name, newest) {
  const whole = historyOf === 0, parameters = { cluster: name };
  const [brokers, usage, bundles, rounds] = await Promise.all([get("brokers", parameters), get("usage", parameters), get("bundles", parameters), get("rounds", whole ? parameters : { ...parameters, since: historyOf })]);
  if (name !== chosen) { again = true; return; }
  setCommonEnding(brokers.names);
  setAround({ cluster: name, brokers, asked: (answer, reason) => { asked(name, answer, reason); showIntents(overview); byId("intents").scrollIntoView({ block: "nearest" }); } });
  await breath();
  showBrokers(brokers, ask);
  await breath();
  await showUsage(usage, ask);
  await breath();
  showMoves(bundles, ask);
  await breath();
  showHistory(rounds, ask, whole);
  known([...bundles.rows.slice(0, 300).map((row) => row.bundle), ...brokers.names.slice(0, 300)]);
  decided = newest;
  historyOf = rounds.version;
}

function picker(found) {
  const box = byId("clusters");
  box.hidden = found.clusters.length < 1;
  const key = JSON.stringify([chosen, found.clusters.map((one) => [one.cluster, one.state, isLate(one)])]);
  if (picker.key === key) return;
  picker.key = key;
  box.replaceChildren(...found.clusters.map((one) => {
    const [label, level] = stateOf(one.state);
    const button = el("button", { type: "button", title: `${one.cluster}: ${label}`, "aria-current": one.cluster === chosen ? "true" : false, onclick: () => { if (one.cluster !== chosen) { choose(one.cluster); looked = 0; update(); } } },
      el("span", { text: one.cluster }), el("span", { class: "hidden", text: isLate(one) ? "no newer round" : label }));
    button.dataset.level = one.state === null ? "" : isLate(one) ? "bad" : level;
    return button;
  }));
}
const isLate = (one) => lateness(one.cluster, one.late_after_ms) === "late";

function notices(found) {
  const lines = found.topics.filter((one) => one.error).map((one) => `No connection to topics.${one.name} (${one.uri}) since ${clock(one.since_ms)}: ${one.error} The rest of the page goes on; this topic is tried again.`);
  if (found.left_out) lines.push(`${found.left_out} records were left out, because there are too many clusters or commands.`);
  const key = lines.join("\n");
  if (notices.key === key) return;
  notices.key = key;
  byId("notices").replaceChildren(...lines.map((text) => el("p", { class: "notice", text })));
}

function empty(found) {
  const reading = found.topics.some((one) => !one.caught_up && !one.error);
  byId("empty").replaceChildren(el("h1", { text: reading ? "Reading the topics …" : "No cluster yet" }), hint(reading ? "The first cluster appears in a moment." : found.empty));
  document.documentElement.dataset.drawn = "empty";
}

const hint = (text) => {
  const made = el("p", { class: "hint" });
  sentence(made, text);
  return made;
};

byId("search").addEventListener("submit", (event) => { event.preventDefault(); ask(byId("subject").value); });
byId("answer-close").addEventListener("click", close);
byId("only-moves").addEventListener("change", refresh);
byId("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const found = await send("POST", "session", { token: byId("token").value }).catch((error) => error);
  if (found instanceof Error) { say(byId("login-error"), found.message); return; }
  byId("token").value = "";
  signedIn(found);
});
document.addEventListener("keydown", (event) => {
  const writes = ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
  if (event.key === "/" && !writes && !event.ctrlKey && !event.metaKey && !event.altKey && !byId("search").hidden) { event.preventDefault(); byId("subject").focus(); byId("subject").select(); }
  if (event.key === "Escape" && !byId("answer").hidden && !byId("ask").open) close();
});
document.addEventListener("visibilitychange", () => { if (person && byId("login").hidden) listen(); });
addEventListener("hashchange", () => { if (list) { const wanted = pick(list.clusters.map((one) => one.cluster)); if (wanted !== chosen) { choose(wanted); looked = 0; update(); } } });
// Colours of canvases are read when they are drawn.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { decided = -1; historyOf = 0; update(); });
let width = innerWidth;
addEventListener("resize", () => { if (Math.abs(innerWidth - width) > 40) { width = innerWidth; decided = -1; historyOf = 0; looked = 0; update(); } });
setInterval(() => { if (overview && overview.cluster === chosen && !document.hidden) showState(overview); }, 1000);
start();
