// Makes elements. Every name is inserted as text, never as markup.
export const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// A sentence whose `commands` are set as code.
export function sentence(target, text) {
  if (target.dataset.text === text) return;
  target.dataset.text = text;
  target.replaceChildren(...text.split("`").map((part, place) => (place % 2 ? el("code", { text: part }) : part)));
}

// Writes only what differs, so that a screen reader does not repeat what stays.
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function table(heads, rows, kinds = []) {
  const cell = (tag, text, column) => el(tag, { ...(text instanceof Node ? {} : { text }), class: kinds[column] || false, "data-head": tag === "td" && heads[column], scope: tag === "th" ? "col" : false }, text instanceof Node ? text : null);
  return el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((text, column) => cell("th", text, column)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, column) => cell("td", text, column))))));
}

// Lets the browser paint and answer keys between two pieces of work.
export const breath = () => new Promise((resolve) => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => resolve();
  channel.port2.postMessage(0);
});

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const tip = byId("tip");
export function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + 14), innerWidth - box.width - 8);
  const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
  tip.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
}
export function hideTip() { tip.hidden = true; }
