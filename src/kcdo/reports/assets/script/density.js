// ---- the density at one combination of inputs --------------------------------
const densityChart = new Chart(byId("density"), "the density", 0.52, () => draw());
let kept = null;
let threshold = NaN;

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

/** Intervals of two levels as bars below the axis, central and of highest density. */
function strips(f, o, kinds) {
  kinds.forEach(([name, most, half], k) => {
    const y = f.bottom + 27 + 13 * k;
    f.over.push(shape("text", { class: "strip-name", x: f.left - 6, y: y + 4, "text-anchor": "end" }, name));
    for (const [kind, intervals] of [["most", most], ["half", half]])
      for (const [a, b] of intervals) {
        const [x1, x2] = [a, b].map((v) => clamp(f.sx(v), f.left, f.right));
        if (x2 > x1) f.over.push(shape("line", { class: `strip-${kind} ${name}`, x1: x1.toFixed(1), x2: x2.toFixed(1), y1: y, y2: y }));
      }
  });
}

function drawDensity(o, now, text) {
  const { values, found, tops } = now;
  const same = byId("same-height").checked;
  const keptValues = kept && kept.output === state.output ? kept.values : null;
  const top = 1.06 * (same ? o.top : Math.max(...values, ...(keptValues ?? [])) || 1);
  const key = `${state.output} ${same}`;
  const f = densityChart.frame([o.low, o.high], [0, top], { x: named(o), y: "density" }, key, 30);
  const { parts, sx, sy } = f;
  const line = (kind, at) => {
    if (at >= o.low && at <= o.high) parts.push(shape("line", { class: kind, x1: sx(at), x2: sx(at), y1: f.top, y2: f.bottom }));
  };
  parts.push(shape("path", { class: "most", d: area(o, values, f, found.q05, found.q95) }));
  parts.push(shape("path", { class: "half", d: area(o, values, f, found.q25, found.q75) }));
  const near = nearRows([state.output], -1, (k) => statistics(outputs[k], now.k));
  for (const { row, weight } of near)
    parts.push(shape("line", {
      class: "rug", x1: sx(rows.outputs[state.output][row]), x2: sx(rows.outputs[state.output][row]),
      y1: f.bottom, y2: f.bottom - 9, opacity: (0.8 * weight).toFixed(3),
    }));
  if (keptValues) parts.push(shape("path", { class: "kept", d: curve(o, keptValues, f) }));
  parts.push(shape("path", { class: "curve", id: "curve", d: curve(o, values, f) }));
  line("mean", found.mean);
  line("threshold-line", threshold);
  if (anchor().outputs) line("actual", anchor().outputs[state.output]);
  for (const y of tops) parts.push(shape("circle", { class: "mode", cx: sx(y), cy: sy(heightAt(o, values, y)), r: 5 }));
  strips(f, o, [
    ["central", [[found.q05, found.q95]], [[found.q25, found.q75]]],
    ["highest", now.region90, now.region50],
  ]);
  densityChart.describe = (at) => [
    `${o.label} ${withUnit(o.write(at.x), o.unit)}`,
    `density ${heightAt(o, values, at.x).toPrecision(3)}`,
    `${(100 * below(o, values, at.x)).toFixed(1)}% below`,
  ];
  densityChart.show(text);
  document.querySelector(".legend .kept").hidden = !keptValues;
  document.querySelector(".legend .actual").hidden = !anchor().outputs;
  document.querySelector(".legend .rows").hidden = !near.length;
}
