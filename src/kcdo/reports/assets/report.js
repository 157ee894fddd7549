"use strict";
(() => {
  const data = JSON.parse(document.getElementById("curves").textContent);
  const byId = (id) => document.getElementById(id);
  const places = data.inputs.map((input) => input.start);
  const SVG = document.querySelector("#density svg").namespaceURI;
  const STATISTICS = data.statistics.length;
  let output = 0;
  let kept = null;
  let threshold = NaN;
  let fan = null; // what the lower chart shows

  // ---- numbers and units -------------------------------------------------
  const withUnit = (text, unit) => text + (unit && unit !== "%" ? "\u202f" : "") + unit;

  /** A function that writes numbers to a fine part of a range. */
  function writer(low, high) {
    const span = Math.abs(high - low) || Math.abs(high) || 1;
    const decimals = Math.max(0, Math.ceil(-Math.log10(span / 400)));
    if (decimals > 7 || Math.max(Math.abs(low), Math.abs(high)) >= 1e9)
      return (v) => v.toPrecision(4).replace("-", "\u2212");
    return (v) => v.toLocaleString("en-US", { maximumFractionDigits: decimals })
      .replace(/^-0$/, "0").replace("-", "\u2212");
  }

  /** Round numbers inside a range, about n of them. */
  function ticks(low, high, n) {
    const rough = (high - low) / n;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((f) => f * power >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const write = decimals > 7 || Math.max(Math.abs(low), Math.abs(high)) >= 1e7
      ? (v) => v.toExponential(1)
      : (v) => v.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    return found.map((v) => ({ value: v, text: write(v).replace(/^-(0(\.0+)?)$/, "$1").replace("-", "\u2212") }));
  }

  // ---- the packed curves -------------------------------------------------
  function bytes(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  const outputs = data.outputs.map((o) => {
    const [low, high, size] = o.axis;
    return {
      label: o.label, unit: o.unit, low, high, size,
      step: (high - low) / (size - 1),
      curves: new Uint16Array(bytes(o.curves).buffer),
      peaks: new Float32Array(bytes(o.peaks).buffer),
      packed: new Uint16Array(bytes(o.statistics).buffer),
      range: o.range, usual: o.scale[0], top: o.scale[1],
      write: writer(low, high),
    };
  });
  const joint = data.joint && { side: data.joint.side, images: bytes(data.joint.images) };

  const index = (at) => at.reduce((sum, place, i) => sum * data.inputs[i].texts.length + place, 0);

  function density(o, k) {
    const values = new Float64Array(o.size);
    for (let i = 0; i < o.size; i++) values[i] = (o.curves[k * o.size + i] / 65535) * o.peaks[k];
    return values;
  }

  function statistics(o, k) {
    const found = {};
    data.statistics.forEach((name, i) => {
      found[name] = o.range[0] + (o.packed[k * STATISTICS + i] / 65535) * (o.range[1] - o.range[0]);
    });
    return found;
  }

  function heightAt(o, values, y) {
    const t = Math.min(Math.max((y - o.low) / o.step, 0), o.size - 1);
    const i = Math.min(Math.floor(t), o.size - 2);
    return values[i] + (t - i) * (values[i + 1] - values[i]);
  }

  /** Tops that stand out from the valleys beside them by a twentieth of the highest. */
  function modes(o, values) {
    const top = Math.max(...values);
    const found = [];
    for (let i = 0; i < o.size; i++) {
      if (!(values[i] > (values[i - 1] ?? -1) && values[i] >= (values[i + 1] ?? -1))) continue;
      const valley = (direction) => {
        let lowest = values[i];
        for (let j = i + direction; j >= 0 && j < o.size; j += direction) {
          if (values[j] > values[i]) return lowest;
          lowest = Math.min(lowest, values[j]);
        }
        return 0;
      };
      if (values[i] - Math.max(valley(-1), valley(1)) >= 0.05 * top) found.push(o.low + i * o.step);
    }
    return found;
  }

  function below(o, values, limit) {
    let total = 0;
    let part = 0;
    for (let i = 0; i + 1 < o.size; i++) {
      const left = o.low + i * o.step;
      const share = Math.min(Math.max((limit - left) / o.step, 0), 1);
      const end = values[i] + share * (values[i + 1] - values[i]);
      total += (values[i] + values[i + 1]) / 2;
      part += (share * (values[i] + end)) / 2;
    }
    return total > 0 ? part / total : NaN;
  }

  // ---- drawing -----------------------------------------------------------
  function shape(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const path = (points) => "M" + points.map(([x, y]) => x.toFixed(1) + "," + y.toFixed(1)).join("L");

  /** Axes in a box that keeps the size of its letters at any width. */
  function frame(box, x, y, labels, ratio) {
    const width = Math.max(260, Math.round(box.clientWidth));
    const height = Math.round(Math.min(380, Math.max(200, width * ratio)));
    const yTicks = labels.yTicks === false ? [] : ticks(y[0], y[1], 6);
    const left = yTicks.length ? 16 + 7 * Math.max(...yTicks.map((t) => t.text.length)) + 8 : 24;
    const [right, top, bottom] = [width - 20, 10, height - 42];
    const sx = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (right - left);
    const sy = (v) => bottom - ((v - y[0]) / (y[1] - y[0])) * (bottom - top);
    const parts = [];
    for (const t of ticks(x[0], x[1], Math.max(3, width / 90))) {
      parts.push(shape("line", { class: "grid", x1: sx(t.value), x2: sx(t.value), y1: top, y2: bottom }));
      parts.push(shape("text", { x: sx(t.value), y: bottom + 16, "text-anchor": "middle" }, t.text));
    }
    for (const t of yTicks) {
      parts.push(shape("line", { class: "grid", x1: left, x2: right, y1: sy(t.value), y2: sy(t.value) }));
      parts.push(shape("text", { x: left - 6, y: sy(t.value) + 4, "text-anchor": "end" }, t.text));
    }
    parts.push(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    parts.push(shape("text", { class: "name", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, labels.x));
    parts.push(shape("text", {
      class: "name", "text-anchor": "middle", transform: `translate(11 ${(top + bottom) / 2}) rotate(-90)`,
    }, labels.y));
    return { width, height, left, right, top, bottom, sx, sy, parts };
  }

  function show(box, f, text) {
    const svg = shape("svg", { viewBox: `0 0 ${f.width} ${f.height}`, role: "img", "aria-label": text });
    svg.append(...f.parts);
    box.replaceChildren(svg);
  }

  const named = (o) => (o.unit ? `${o.label} [${o.unit}]` : o.label);

  /** The area under a curve between two values. */
  function area(o, values, f, from, to) {
    from = Math.max(from, o.low);
    to = Math.min(to, o.high);
    const points = [[f.sx(from), f.sy(0)], [f.sx(from), f.sy(heightAt(o, values, from))]];
    for (let i = 0; i < o.size; i++) {
      const y = o.low + i * o.step;
      if (y > from && y < to) points.push([f.sx(y), f.sy(values[i])]);
    }
    points.push([f.sx(to), f.sy(heightAt(o, values, to))], [f.sx(to), f.sy(0)]);
    return path(points) + "Z";
  }

  const curve = (o, values, f) => path(Array.from(values, (v, i) => [f.sx(o.low + i * o.step), f.sy(v)]));

  function drawDensity(o, values, found, tops, text) {
    const same = byId("same-height").checked;
    const keptValues = kept && kept.output === output ? kept.values : null;
    const top = 1.06 * (same ? o.top : Math.max(...values, ...(keptValues ?? [])) || 1);
    const f = frame(byId("density"), [o.low, o.high], [0, top], { x: named(o), y: "density" }, 0.52);
    const { parts, sx, sy } = f;
    parts.push(shape("path", { class: "most", d: area(o, values, f, found.q05, found.q95) }));
    parts.push(shape("path", { class: "half", d: area(o, values, f, found.q25, found.q75) }));
    if (keptValues) parts.push(shape("path", { class: "kept", d: curve(o, keptValues, f) }));
    parts.push(shape("path", { class: "curve", id: "curve", d: curve(o, values, f) }));
    if (found.mean >= o.low && found.mean <= o.high)
      parts.push(shape("line", { class: "mean", x1: sx(found.mean), x2: sx(found.mean), y1: f.top, y2: f.bottom }));
    if (threshold >= o.low && threshold <= o.high)
      parts.push(shape("line", { class: "threshold-line", x1: sx(threshold), x2: sx(threshold), y1: f.top, y2: f.bottom }));
    for (const y of tops) parts.push(shape("circle", { class: "mode", cx: sx(y), cy: sy(heightAt(o, values, y)), r: 5 }));
    show(byId("density"), f, text);
    document.querySelector(".legend .kept").hidden = !keptValues;
  }

  function drawFan(o) {
    const along = Number(byId("along").value);
    const input = data.inputs[along];
    const at = input.values.map((_, i) => statistics(o, index(Object.assign([...places], { [along]: i }))));
    const low = Math.min(o.low, ...at.map((s) => s.q05));
    const high = Math.max(o.high, ...at.map((s) => s.q95));
    const ends = [input.values[0], input.values[input.values.length - 1]];
    const f = frame(byId("fan"), ends, [low, high], { x: named(input), y: named(o) }, 0.5);
    const line = (name) => at.map((s, i) => [f.sx(input.values[i]), f.sy(s[name])]);
    const band = (a, b) => path([...line(a), ...line(b).reverse()]) + "Z";
    f.parts.push(shape("path", { class: "most", d: band("q05", "q95") }));
    f.parts.push(shape("path", { class: "half", d: band("q25", "q75") }));
    f.parts.push(shape("path", { class: "curve", d: path(line("q50")) }));
    const here = f.sx(input.values[places[along]]);
    f.parts.push(shape("line", { class: "here", x1: here, x2: here, y1: f.top, y2: f.bottom }));
    show(byId("fan"), f, `Intervals of ${o.label} along ${input.label}`);
    fan = { along, f };
  }

  /** Move the slider to where the chart was touched. */
  function moveTo(event) {
    if (!event.buttons) return;
    const { along, f } = fan;
    const box = byId("fan").getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * f.width;
    const distances = data.inputs[along].values.map((v) => Math.abs(f.sx(v) - x));
    const place = distances.indexOf(Math.min(...distances));
    if (place === places[along]) return;
    places[along] = place;
    fillControls();
    draw();
  }

  function drawJoint(k) {
    const [a, b] = outputs;
    const { side, images } = joint;
    const f = frame(byId("joint"), [a.low, a.high], [b.low, b.high], { x: named(a), y: named(b) }, 0.8);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(side, side);
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent-rgb").trim().split(/\s+/);
    for (let i = 0; i < side; i++) {
      for (let j = 0; j < side; j++) {
        const value = images[(k * side + i) * side + j] / 255;
        const place = 4 * ((side - 1 - j) * side + i);
        for (let c = 0; c < 3; c++) pixels.data[place + c] = Number(colour[c]);
        pixels.data[place + 3] = Math.round(255 * Math.sqrt(value));
      }
    }
    context.putImageData(pixels, 0, 0);
    f.parts.push(shape("image", {
      href: canvas.toDataURL(), preserveAspectRatio: "none",
      x: f.left, y: f.top, width: f.right - f.left, height: f.bottom - f.top,
    }));
    const [x, y] = [f.sx(statistics(a, k).mean), f.sy(statistics(b, k).mean)];
    f.parts.push(shape("path", { class: "here", d: `M${x - 6},${y}h12M${x},${y - 6}v12` }));
    show(byId("joint"), f, `Joint density of ${a.label} and ${b.label}`);
  }

  // ---- words -------------------------------------------------------------
  function answers(o, found, tops) {
    const one = (v) => withUnit(o.write(v), o.unit);
    const two = (a, b) => withUnit(`${o.write(a)} to ${o.write(b)}`, o.unit);
    return [
      ["Mean", one(found.mean)],
      ["Median", one(found.q50)],
      [tops.length === 1 ? "Mode" : "Modes", withUnit(tops.map(o.write).join(" and "), o.unit)],
      ["50% interval", two(found.q25, found.q75)],
      ["90% interval", two(found.q05, found.q95)],
    ];
  }

  let speaking = 0;
  function speak(text) {
    clearTimeout(speaking); // wait until the slider rests
    speaking = setTimeout(() => { byId("spoken").textContent = text; }, 400);
  }

  function draw() {
    const o = outputs[output];
    const k = index(places);
    const values = density(o, k);
    const found = statistics(o, k);
    const tops = modes(o, values);
    const lines = answers(o, found, tops);
    const text = `Density of ${o.label}. ` + lines.map(([name, value]) => `${name} ${value}`).join(", ");
    drawDensity(o, values, found, tops, text);
    byId("readout").replaceChildren(...lines.map(([name, value]) => {
      const [row, term, detail] = [html("div"), html("dt"), html("dd")];
      term.textContent = name;
      detail.textContent = value;
      row.append(term, detail);
      return row;
    }));
    byId("probability").textContent = Number.isNaN(threshold) ? "" : `= ${(100 * below(o, values, threshold)).toFixed(1)}%`;
    if (byId("along").options.length) drawFan(o);
    if (joint) drawJoint(k);
    speak(text);
  }

  // ---- controls ----------------------------------------------------------
  function html(name, attributes = {}, text) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const valueText = (i) => withUnit(data.inputs[i].texts[places[i]], data.inputs[i].unit);

  function choice(id, name, texts, chosen, changed) {
    const row = html("p", { class: "control" });
    const select = html("select", { id });
    texts.forEach((text, i) => select.append(new Option(text, String(i), false, i === chosen)));
    select.addEventListener("change", () => changed(Number(select.value)));
    const label = html("label", { for: id });
    label.append(html("span", { class: "name" }, name));
    row.append(label, select);
    return row;
  }

  function slider(i) {
    const input = data.inputs[i];
    const row = html("p", { class: "control" });
    const range = html("input", { type: "range", id: `input-${i}`, min: 0, max: input.texts.length - 1, step: 1 });
    range.addEventListener("input", () => { places[i] = Number(range.value); fillControls(); draw(); });
    const label = html("label", { for: `input-${i}` });
    label.append(html("span", { class: "name" }, input.label), html("output", { id: `value-${i}`, for: `input-${i}` }));
    row.append(label, range);
    return row;
  }

  /** Show in the controls what the places are. */
  function fillControls() {
    data.inputs.forEach((input, i) => {
      const element = byId(`input-${i}`);
      if (!element) return;
      element.value = String(places[i]);
      if (input.kind !== "slider") return;
      element.setAttribute("aria-valuetext", valueText(i));
      byId(`value-${i}`).textContent = valueText(i);
    });
  }

  function buttons() {
    const row = html("p", { class: "buttons" });
    const keep = html("button", { type: "button", id: "keep", "aria-pressed": "false" }, "Keep this curve");
    keep.addEventListener("click", () => {
      kept = kept ? null : { output, values: density(outputs[output], index(places)) };
      keep.setAttribute("aria-pressed", String(Boolean(kept)));
      keep.textContent = kept ? "Drop the kept curve" : "Keep this curve";
      draw();
    });
    const reset = html("button", { type: "button", id: "reset" }, "Typical inputs");
    reset.addEventListener("click", () => {
      data.inputs.forEach((input, i) => { places[i] = input.start; });
      fillControls();
      draw();
    });
    row.append(keep, reset);
    return row;
  }

  function thresholdRow() {
    const row = html("p", { class: "threshold" });
    const field = html("input", { type: "number", id: "threshold", step: "any", inputmode: "decimal" });
    field.addEventListener("input", () => { threshold = field.valueAsNumber; draw(); });
    row.append(html("label", { for: "threshold", id: "threshold-label" }), field,
      html("span", { id: "threshold-unit" }), html("output", { id: "probability", for: "threshold" }));
    return row;
  }

  function heightRow() {
    const row = html("label", { class: "check" });
    const box = html("input", { type: "checkbox", id: "same-height" });
    box.checked = outputs.every((o) => o.top < 3 * o.usual);
    box.addEventListener("change", draw);
    row.append(box, "Same height axis for all curves");
    return row;
  }

  function chooseOutput(place) {
    output = place;
    const o = outputs[output];
    const distance = (t) => Math.abs(t.value - statistics(o, index(places)).q50);
    const near = ticks(o.low, o.high, 20).reduce((a, b) => (distance(b) < distance(a) ? b : a));
    threshold = Number(near.value.toPrecision(6));
    byId("threshold").value = String(threshold);
    byId("threshold-label").textContent = `Probability that ${outputs[output].label} is at most`;
    byId("threshold-unit").textContent = outputs[output].unit;
    draw();
  }

  function build() {
    const form = byId("controls");
    form.addEventListener("submit", (event) => event.preventDefault());
    if (outputs.length > 1) form.append(choice("output", "Output", outputs.map((o) => o.label), 0, chooseOutput));
    data.inputs.forEach((input, i) => {
      if (input.kind === "slider") form.append(slider(i));
      else if (input.kind === "select")
        form.append(choice(`input-${i}`, input.label, input.texts.map((t) => withUnit(t, input.unit)), places[i],
          (place) => { places[i] = place; draw(); }));
    });
    const held = data.inputs.flatMap((input, i) => (input.kind === "fixed" ? [`${input.label} = ${valueText(i)}`] : []));
    if (held.length) form.append(html("p", { class: "held" }, `Held at: ${held.join(", ")}`));
    form.append(heightRow(), buttons(), thresholdRow());
    data.inputs.forEach((input, i) => {
      if (input.kind === "slider" && input.texts.length > 1) byId("along").append(new Option(input.label, String(i)));
    });
    byId("along").addEventListener("change", draw);
    for (const kind of ["pointerdown", "pointermove"]) byId("fan").addEventListener(kind, moveTo);
    byId("along-part").hidden = !byId("along").options.length;
    byId("joint-part").hidden = !joint;
    document.querySelector(".explorer").hidden = false;
  }

  build();
  fillControls();
  chooseOutput(0);
  let width = byId("density").clientWidth;
  new ResizeObserver(() => {
    if (byId("density").clientWidth === width) return;
    width = byId("density").clientWidth;
    draw();
  }).observe(byId("density"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
