// Why, or why not: what `rebalancer explain` says.
import { byId, el } from "./dom.js";
import { get } from "./api.js";
import { isBundle, moveButton, undoButton } from "./move.js";

let cluster = "";
export const setCluster = (name) => { cluster = name; };

export async function ask(subject, epoch) {
  if (!subject.trim()) return;
  byId("subject").value = subject;
  const box = byId("answer"), title = byId("answer-title");
  box.hidden = false;
  title.textContent = `Asking about ${subject} …`;
  const found = await get("explain", { cluster, subject, ...(epoch ? { epoch } : {}) }).catch((error) => ({ found: false, kind: "", subject, lines: [error.message] }));
  title.textContent = found.found ? `Why: ${found.kind} ${found.kind === "latest" ? "round" : found.subject}` : "No answer";
  const name = found.kind === "bundle" || isBundle(subject.trim()) ? found.subject : "";
  byId("answer-do").replaceChildren(...[name ? moveButton(name, "Move the bundle…") : null, undoButton(found.undo)].filter(Boolean));
  byId("answer-lines").replaceChildren(...found.lines.map(line));
  byId("answer-lines").scrollTop = 0;
  title.focus({ preventScroll: true });
  box.scrollIntoView({ block: "nearest" });
}

function line(text) {
  const deep = text.length - text.trimStart().length, made = el("p", { text: text.trim() });
  made.style.setProperty("--deep", deep / 2);
  return made;
}

export function close() {
  byId("answer").hidden = true;
  byId("subject").focus();
}

export function known(names) {
  byId("known").replaceChildren(...names.slice(0, 600).map((name) => el("option", { value: name })));
}
