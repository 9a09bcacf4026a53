// A list that has elements only for the rows in view. Arrow keys walk through it, Enter chooses.
import { el } from "./dom.js";

export class VirtualList {
  constructor(box, height, draw) {
    this.box = box;
    this.height = height;  // a function: rows are higher on phones
    this.draw = draw;
    this.items = [];
    this.rows = new Map();
    this.space = el("div", { class: "space" });
    this.space.setAttribute("role", "presentation");
    box.replaceChildren(this.space);
    box.addEventListener("scroll", () => this.show(), { passive: true });
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.show(true)).observe(box);
  }

  set(items) {
    this.items = items;
    const rows = Math.max(1, items.length);
    this.box.style.height = `${Math.min(rows * this.height() + 2, this.most())}px`;
    this.show(true);
  }

  most() { return this.box.classList.contains("tall") ? 460 : 360; }

  show(all = false) {
    const height = this.height();
    this.space.style.height = `${this.items.length * height}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / height) - 4);
    const last = Math.min(this.items.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / height) + 4);
    const focused = this.focused();
    for (const [place, row] of this.rows) {
      if (all || place < first || place >= last) { row.remove(); this.rows.delete(place); }
    }
    for (let place = first; place < last; place += 1) {
      if (this.rows.has(place)) continue;
      const row = this.draw(this.items[place], place);
      row.tabIndex = -1;
      row.dataset.place = place;
      row.setAttribute("role", "listitem");
      row.setAttribute("aria-setsize", this.items.length);
      row.setAttribute("aria-posinset", place + 1);
      row.style.height = `${height}px`;
      row.style.transform = `translateY(${place * height}px)`;
      this.space.append(row);
      this.rows.set(place, row);
    }
    if (focused !== null) this.rows.get(focused)?.focus({ preventScroll: true });
  }

  focused() {
    const active = document.activeElement;
    return active && this.space.contains(active) && active.dataset.place ? Number(active.dataset.place) : null;
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -1e9, End: 1e9 };
    if (!(event.key in steps) || !this.items.length) return;
    event.preventDefault();
    const at = this.focused();
    const next = at === null ? (event.key === "End" ? this.items.length - 1 : 0) : Math.min(this.items.length - 1, Math.max(0, at + steps[event.key]));
    const height = this.height();
    if (next * height < this.box.scrollTop) this.box.scrollTop = next * height;
    if ((next + 1) * height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = (next + 1) * height - this.box.clientHeight;
    this.show();
    this.rows.get(next)?.focus({ preventScroll: true });
  }
}
