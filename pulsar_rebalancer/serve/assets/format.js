// Figures and times as people read them.
let ahead = 0;  // the server's clock minus ours
export const setClock = (serverMs) => { ahead = serverMs - Date.now(); };
export const now = () => Date.now() + ahead;

export const percent = (permille) => (permille === null || permille === undefined ? "–" : `${(permille / 10).toFixed(1)} %`);
export const points = (fraction) => (fraction === null || fraction === undefined ? "–" : (100 * fraction).toFixed(1));
export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// Date throws for times beyond this.
const iso = (ms) => (Math.abs(ms) > 8.64e15 ? `${ms} ms` : new Date(ms).toISOString());
export const clock = (ms) => iso(ms).slice(0, 19).replace("T", " ");
export const hour = (ms) => iso(ms).slice(11, 16);
export const day = (ms) => iso(ms).slice(5, 16).replace("T", " ");

export function ago(ms) {
  const seconds = Math.round((now() - ms) / 1000);
  if (seconds < -60) return `${age(-seconds)} ahead`;
  return `${age(Math.max(0, seconds))} ago`;
}
function age(seconds) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${seconds} s`;
}
export const span = (ms) => age(Math.round(ms / 1000));
export function until(ms) {
  const seconds = Math.round((ms - now()) / 1000);
  return seconds <= 0 ? "expired" : `expires in ${age(seconds)}`;
}

export const STATES = {
  balanced: ["✓ Balanced", "good"], acting: ["▶ Acting", "open"], waiting: ["◔ Waiting for evidence", "open"],
  "cannot-help": ["◐ Cannot help", "fair"], "not-allowed": ["⊘ Not allowed", "fair"],
  yielding: ["⇄ Yielding", "fair"], blind: ["✗ Blind", "bad"], "set-aside": ["⚠ Set aside", "bad"],
  paused: ["⏸ Paused", "fair"], unknown: ["ℹ No state", "fair"],
};
export const stateOf = (code) => STATES[code] || [code || "ℹ No round yet", "open"];
// What an expected figure counts as done besides the commands of its own round.
export const earlier = (moves) => (moves ? ` with ${counted(moves, "earlier move")} that reports do not show yet` : "");
export const ANSWERS = {
  applied: ["applied", "--applied"], open: ["waiting", "--waiting"], refused: ["refused or failed", "--refused"],
  expired: ["expired", "--expired"], "dry-run": ["dry run", "--dry"], advice: ["advice only", "--advice"],
};
// What all brokers have in common is left out where room is short: broker-3.pulsar.example.org:8080 → broker-3.
let ending = "";
export function setCommonEnding(names) {
  const hosts = names.map(withoutPort), first = hosts[0] || "";
  let common = first.length;
  for (const host of hosts) {
    let same = 0;
    while (same < common && same < host.length && host[host.length - 1 - same] === first[first.length - 1 - same]) same += 1;
    common = same;
  }
  const dot = first.indexOf(".", first.length - common);
  ending = names.length > 1 && dot > 0 && !/^[\d.]+$/.test(first) ? first.slice(dot) : "";
}
export const commonEnding = () => ending;
const withoutPort = (broker) => broker.replace(/:\d+$/, "");
export function short(broker) {
  const host = withoutPort(broker);
  return ending && host.endsWith(ending) ? host.slice(0, -ending.length) : host;
}
