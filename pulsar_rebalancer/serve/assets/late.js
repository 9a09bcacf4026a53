// Whether a cluster or a process has no newer sign of life, or is catching up: signs of the past that still arrive.
import { now } from "./format.js";

const ARRIVES_MS = 30_000;  // longest time between two signs of a job that catches up
const seen = new Map();  // what → [when its newest sign is too old, when that sign arrived here]

// "" for what is fresh, "late" or "catching up". `after`: when the newest sign is too old, null without any.
export function lateness(what, after) {
  const before = seen.get(what);
  if (!before || before[0] !== after) seen.set(what, [after, before && after !== null ? now() : -Infinity]);
  if (after === null || now() <= after) return "";
  return now() - seen.get(what)[1] < ARRIVES_MS ? "catching up" : "late";
}
