// A map of cells on a canvas: one row per name, one column per moment. Its picture is drawn once per change;
// the pointer and the arrow keys only move a frame over it.
import { byId, colour, el, hideTip, say, showTip } from "./dom.js";

// Cividis, which colour-blind readers can distinguish; yellow is full.
const CIVIDIS = [[0, 32, 77], [0, 49, 110], [43, 66, 109], [72, 83, 109], [94, 101, 111], [115, 118, 117], [138, 136, 120], [162, 154, 117], [188, 174, 108], [215, 195, 93], [243, 217, 70], [255, 234, 70]];
export function cividis(share) {
  const at = Math.min(1, Math.max(0, share)) * (CIVIDIS.length - 1);
  const low = Math.floor(at), rest = at - low, a = CIVIDIS[low], b = CIVIDIS[Math.min(low + 1, CIVIDIS.length - 1)];
  return [0, 1, 2].map((part) => Math.round(a[part] + (b[part] - a[part]) * rest));
}

export class CellMap {
  // options: label (for screen readers), text(row, column) for the tip, choose(row, column) on a click or Enter
  constructor(box, options) {
    this.options = options;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": options.label });
    box.replaceChildren(this.canvas);
    this.at = null;
    this.image = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.at = null; hideTip(); this.paint(); });
    this.canvas.addEventListener("click", (event) => { this.point(event); if (this.at) options.choose(...this.at); });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => { this.at = null; hideTip(); this.paint(); });
    new ResizeObserver(() => this.paint()).observe(box);
  }

  // names: labels of rows; times: labels of columns; pixels(data): fills RGBA, one pixel per cell
  set({ rows, columns, rowHeight, rowLabel, columnLabel, pixels, label }) {
    Object.assign(this, { rows, columns, rowHeight, rowLabel, columnLabel });
    if (label) this.canvas.setAttribute("aria-label", label);
    this.gutter = this.widest();
    if (rows && columns) {
      const image = new ImageData(columns, rows);
      pixels(image.data);
      this.image = new OffscreenCanvas(columns, rows);
      this.image.getContext("2d").putImageData(image, 0, 0);
    } else this.image = null;
    this.paint();
  }

  place() {
    const width = this.canvas.clientWidth, narrow = width < 520;
    const named = this.rowHeight >= 12;
    const left = named ? Math.min(this.gutter, narrow ? 130 : width > 1000 ? 320 : 230, width * 0.36) : Math.min(this.gutter, 42);
    return { width, left, cell: (width - left) / this.columns, height: this.rows * this.rowHeight, named };
  }

  // Room for the names of rows, at least as much as for the figures of a chart above.
  widest() {
    const pen = this.canvas.getContext("2d");
    pen.font = `${Math.min(12, this.rowHeight - 1)}px system-ui, sans-serif`;
    let most = 34;
    if (this.rowHeight >= 12) for (let row = 0; row < this.rows; row += 1) most = Math.max(most, pen.measureText(this.rowLabel(row)).width);
    return Math.ceil(most) + 8;
  }

  paint() {
    if (!this.image) return;
    const { width, left, cell, height, named } = this.place();
    if (!width) return;
    const ratio = devicePixelRatio || 1, total = height + 18;
    this.canvas.style.height = `${total}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(total * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.image, left, 0, width - left, height);
    pen.font = `${Math.min(12, this.rowHeight - 1)}px system-ui, sans-serif`;
    pen.fillStyle = colour("--soft");
    if (named) {
      pen.textBaseline = "middle";
      for (let row = 0; row < this.rows; row += 1) pen.fillText(fitted(pen, this.rowLabel(row), left - 8), 0, (row + 0.5) * this.rowHeight);
    }
    this.axis(pen, left, width, cell, height);
    if (this.at) {
      const [row, column] = this.at;
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(left + column * cell - 1, row * this.rowHeight - 1, Math.max(cell, 4) + 2, Math.max(this.rowHeight, 4) + 2);
    }
  }

  axis(pen, left, width, cell, height) {
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    const marks = Math.max(2, Math.min(this.columns, Math.floor((width - left) / 110)));
    for (let mark = 0; mark < marks; mark += 1) {
      const column = Math.round((this.columns - 1) * (marks === 1 ? 0 : mark / (marks - 1)));
      const text = this.columnLabel(column), size = pen.measureText(text).width;
      pen.fillText(text, Math.min(Math.max(left, left + (column + 0.5) * cell - size / 2), width - size), height + 4);
    }
  }

  point(event) {
    if (!this.image) return;
    const { left, cell } = this.place(), box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / cell), row = Math.floor((event.clientY - box.top) / this.rowHeight);
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    this.move(inside ? [row, column] : null, event.clientX, event.clientY);
  }

  move(at, x, y) {
    const same = at && this.at && at[0] === this.at[0] && at[1] === this.at[1];
    this.at = at;
    const text = at && this.options.text(...at);
    if (text) showTip(text, x, y); else hideTip();
    if (!same) requestAnimationFrame(() => this.paint());
    return text;
  }

  key(event) {
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9], PageDown: [10, 0], PageUp: [-10, 0] };
    if (event.key === "Enter" && this.at) return this.options.choose(...this.at);
    if (!(event.key in steps) || !this.image) return undefined;
    event.preventDefault();
    const [down, right] = steps[event.key], [row, column] = this.at || [0, this.columns - 1];
    const clamp = (value, most) => Math.min(most - 1, Math.max(0, value));
    const next = this.at ? [clamp(row + down, this.rows), clamp(column + right, this.columns)] : [row, column];
    const { left, cell } = this.place(), box = this.canvas.getBoundingClientRect();
    const text = this.move(next, box.left + left + next[1] * cell, box.top + next[0] * this.rowHeight);
    say(byId("said"), text || this.rowLabel(next[0]));
    return undefined;
  }
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`…${text.slice(text.length - middle)}`).width <= width) low = middle; else high = middle - 1;
  }
  return `…${text.slice(text.length - low)}`;
}
