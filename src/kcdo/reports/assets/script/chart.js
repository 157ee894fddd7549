// ---- drawing ---------------------------------------------------------------
const SVG = document.querySelector("#density svg").namespaceURI;

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function html(name, attributes = {}, text) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const path = (points) => "M" + points.map(([x, y]) => x.toFixed(1) + "," + y.toFixed(1)).join("L");
const accent = () => getComputedStyle(document.documentElement).getPropertyValue("--accent-rgb").trim().split(/\s+/).map(Number);

/** A chart with axes, a picture behind, a tip at the pointer, and a zoom by buttons, keys and wheel. */
class Chart {
  constructor(box, name, ratio, redraw) {
    Object.assign(this, { box, name, ratio, redraw });
    this.zoomed = null;
    this.key = "";
    this.plot = html("div", { class: "plot" });
    this.canvas = html("canvas", { "aria-hidden": "true" });
    this.tip = html("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.plot.append(this.canvas, this.tip);
    box.replaceChildren(this.plot, this.tools());
    this.plot.addEventListener("pointermove", (event) => this.hover(event));
    this.plot.addEventListener("pointerdown", (event) => this.hover(event));
    this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.plot.addEventListener("dblclick", (event) => this.zoom(0.5, this.at(event)));
    this.plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // pinching a touchpad, too
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.at(event));
    }, { passive: false });
  }

  tools() {
    const row = html("p", { class: "tools", role: "group", "aria-label": `Zoom of ${this.name}; arrow keys move` });
    const button = (text, label, act) => {
      const made = html("button", { type: "button", "aria-label": `${label}: ${this.name}`, title: label }, text);
      made.addEventListener("click", act);
      row.append(made);
      return made;
    };
    button("+", "Zoom in", () => this.zoom(0.5));
    button("\u2212", "Zoom out", () => this.zoom(2));
    this.whole = button("Whole", "Show the whole", () => this.zoom(Infinity));
    row.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
      if (!step || !this.zoomed) return;
      event.preventDefault();
      this.pan(step);
    });
    return row;
  }

  /** Axes of what is shown; another key forgets the zoom. */
  frame(x, y, labels, key, below = 0) {
    if (key !== this.key) this.zoomed = null;
    this.key = key;
    this.full = { x, y };
    const view = this.zoomed ?? this.full;
    const width = Math.max(260, Math.round(this.box.clientWidth));
    const height = Math.round(clamp(width * this.ratio, 200, 380)) + below;
    const yTicks = ticks(view.y[0], view.y[1], 6);
    const left = Math.max(below ? 62 : 0, 24 + 7 * Math.max(0, ...yTicks.map((t) => t.text.length)));
    const [right, top, bottom] = [width - 20, 10, height - 42 - below];
    const sx = (v) => left + ((v - view.x[0]) / (view.x[1] - view.x[0])) * (right - left);
    const sy = (v) => bottom - ((v - view.y[0]) / (view.y[1] - view.y[0])) * (bottom - top);
    const f = { width, height, left, right, top, bottom, sx, sy, view, behind: [], parts: [], over: [], key };
    for (const t of labels.places ?? ticks(view.x[0], view.x[1], Math.max(3, width / 90))) {
      if (sx(t.value) < left - 0.5 || sx(t.value) > right + 0.5) continue;
      if (!labels.places) f.behind.push(shape("line", { class: "grid", x1: sx(t.value), x2: sx(t.value), y1: top, y2: bottom }));
      f.behind.push(shape("text", { x: sx(t.value), y: bottom + 16, "text-anchor": "middle" }, t.text));
    }
    for (const t of yTicks) {
      f.behind.push(shape("line", { class: "grid", x1: left, x2: right, y1: sy(t.value), y2: sy(t.value) }));
      f.behind.push(shape("text", { x: left - 6, y: sy(t.value) + 4, "text-anchor": "end" }, t.text));
    }
    f.behind.push(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    f.behind.push(shape("text", { class: "name", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, labels.x));
    f.behind.push(shape("text", {
      class: "name", "text-anchor": "middle", transform: `translate(11 ${(top + bottom) / 2}) rotate(-90)`,
    }, labels.y));
    this.f = f;
    this.hints = [];
    this.describe = null;
    return f;
  }

  /** Colour the picture behind by a height between 0 and 1 for every place. */
  paint(heightAt) {
    const { f, canvas } = this;
    const [width, height] = [Math.round(f.right - f.left), Math.round(f.bottom - f.top)];
    canvas.width = width;
    canvas.height = height;
    const place = (v, whole) => `${(100 * v) / whole}%`;
    Object.assign(canvas.style, {
      left: place(f.left, f.width), top: place(f.top, f.height),
      width: place(f.right - f.left, f.width), height: place(f.bottom - f.top, f.height),
    });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const image = context.createImageData(width, height);
    const colour = accent();
    const { x, y } = f.view;
    for (let i = 0; i < width; i++) {
      const column = heightAt(x[0] + ((i + 0.5) / width) * (x[1] - x[0]));
      for (let j = 0; j < height; j++) {
        const at = 4 * (j * width + i);
        image.data.set(colour, at);
        image.data[at + 3] = Math.round(255 * Math.sqrt(clamp(column(y[1] - ((j + 0.5) / height) * (y[1] - y[0])), 0, 1)));
      }
    }
    context.putImageData(image, 0, 0);
  }

  /** Draw rows as points, the fainter the farther from what is shown. */
  points(near, placeOf) {
    const opacity = clamp(8 / Math.sqrt(Math.max(near.length, 1)), 0.35, 0.9);
    for (const { row, weight } of near) {
      const [x, y, kind = "point"] = placeOf(row);
      const { f } = this;
      if (x < f.left - 1 || x > f.right + 1 || y < f.top - 1 || y > f.bottom + 1) continue;
      f.parts.push(shape("circle", {
        class: kind, cx: x.toFixed(1), cy: y.toFixed(1), r: 2.5, "data-row": rows.numbers[row], opacity: (opacity * weight).toFixed(3),
      }));
      this.hints.push({ x, y, row });
    }
  }

  /** Put the chart on the page, with what it shows in words. */
  show(text) {
    const { f } = this;
    const svg = shape("svg", { viewBox: `0 0 ${f.width} ${f.height}`, role: "img", "aria-label": text });
    const id = `clip-${this.box.id}`;
    const clip = shape("clipPath", { id });
    clip.append(shape("rect", { x: f.left, y: f.top - 2, width: f.right - f.left, height: f.bottom - f.top + 4 }));
    const inside = shape("g", { "clip-path": `url(#${id})` });
    inside.append(...f.parts);
    svg.append(clip, ...f.behind, inside, ...f.over);
    this.plot.querySelector("svg")?.remove();
    this.plot.insertBefore(svg, this.tip);
    this.whole.disabled = !this.zoomed;
  }

  /** The place of a pointer, in the units of the axes. */
  at(event) {
    const { f } = this;
    const box = this.plot.getBoundingClientRect();
    const [px, py] = [((event.clientX - box.left) / box.width) * f.width, ((event.clientY - box.top) / box.height) * f.height];
    const { x, y } = f.view;
    return {
      px, py,
      x: x[0] + ((px - f.left) / (f.right - f.left)) * (x[1] - x[0]),
      y: y[1] - ((py - f.top) / (f.bottom - f.top)) * (y[1] - y[0]),
      inside: px >= f.left && px <= f.right && py >= f.top && py <= f.bottom,
    };
  }

  hover(event) {
    if (!this.f) return;
    const at = this.at(event);
    const close = this.hints.map((hint) => ({ hint, far: Math.hypot(hint.x - at.px, hint.y - at.py) }))
      .reduce((best, one) => (one.far < best.far ? one : best), { far: 9 });
    const lines = close.hint ? rowText(close.hint.row) : at.inside && this.describe ? this.describe(at) : null;
    this.tip.hidden = !lines;
    if (!lines) return;
    this.tip.replaceChildren(...lines.map((line) => html("div", {}, line)));
    const right = at.px > this.f.width / 2;
    Object.assign(this.tip.style, {
      left: right ? "auto" : `${(100 * (at.px + 14)) / this.f.width}%`,
      right: right ? `${100 - (100 * (at.px - 14)) / this.f.width}%` : "auto",
      top: `${(100 * Math.max(4, at.py - 30)) / this.f.height}%`,
    });
  }

  zoom(factor, at) {
    const view = this.zoomed ?? this.full;
    const ends = (axis) => {
      const [low, high] = this.full[axis];
      const [from, to] = view[axis];
      const size = Math.min(high - low, factor * (to - from));
      const centre = at ? clamp(at[axis], from, to) : (from + to) / 2; // stays where it is
      const start = clamp(centre - ((centre - from) / (to - from)) * size, low, high - size);
      return [start, start + size];
    };
    const next = { x: ends("x"), y: ends("y") };
    const everything = ["x", "y"].every((axis) => next[axis][1] - next[axis][0] >= 0.999 * (this.full[axis][1] - this.full[axis][0]));
    this.zoomed = everything ? null : next;
    this.redraw();
  }

  pan(step) {
    ["x", "y"].forEach((axis, k) => {
      const [low, high] = this.full[axis];
      const size = this.zoomed[axis][1] - this.zoomed[axis][0];
      const from = clamp(this.zoomed[axis][0] + 0.2 * step[k] * size, low, high - size);
      this.zoomed[axis] = [from, from + size];
    });
    this.redraw();
  }
}
