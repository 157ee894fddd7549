// ---- the density along one input -----------------------------------------------
const alongChart = new Chart(byId("fan"), "the density along an input", 0.5, () => draw());
const VIOLIN = 0.42; // half the width of the widest, in distances between violins

/** A height from which on the colour is full: narrow peaks must not make all others pale. */
function fullColour(o, curves) {
  const peaks = curves.map((k) => o.peaks[k]).sort((a, b) => a - b);
  return peaks[Math.floor(0.9 * (peaks.length - 1))] || 1;
}

function drawAlong(o) {
  const input = inputs[state.along];
  const curves = curvesAlong();
  const at = curves.map((k) => statistics(o, k));
  const low = Math.min(o.low, ...at.map((s) => s.q05));
  const high = Math.max(o.high, ...at.map((s) => s.q95));
  const key = `${state.along} ${state.output}`;
  const near = nearRows([state.output], state.along, (k, row) => {
    const place = nearest(input.values, rows.inputs[state.along][row]);
    return k === state.output ? at[place] : statistics(outputs[k], curves[place]);
  });
  if (input.kind === "slider") drawHeat(o, input, curves, at, near, [low, high], key);
  else drawViolins(o, input, curves, at, near, [low, high], key);
  alongChart.show(`Density of ${o.label} along ${input.label}, with ${near.length} rows near the slice`);
}

function drawHeat(o, input, curves, at, near, ends, key) {
  const f = alongChart.frame([input.values[0], input.values.at(-1)], ends, { x: named(input), y: named(o) }, key);
  const { sx, sy } = f;
  const top = fullColour(o, curves);
  alongChart.paint((x) => {
    const k = curves[nearest(input.values, x)];
    const values = density(o, k);
    return (y) => (y < o.low || y > o.high ? 0 : heightAt(o, values, y) / top);
  });
  const line = (name) => path(at.map((s, i) => [sx(input.values[i]), sy(s[name])]));
  for (const name of ["q05", "q95"]) f.parts.push(shape("path", { class: "edge", d: line(name) }));
  f.parts.push(shape("path", { class: "curve", d: line("q50") }));
  curves.forEach((k, i) => {
    for (const y of modes(o, density(o, k)))
      f.parts.push(shape("circle", { class: "mode-dot", cx: sx(input.values[i]).toFixed(1), cy: sy(y).toFixed(1), r: 2 }));
  });
  alongChart.points(near, (row) => [sx(rows.inputs[state.along][row]), sy(rows.outputs[state.output][row])]);
  const here = sx(valueOf(state.along));
  f.parts.push(shape("line", { class: "here", x1: here, x2: here, y1: f.top, y2: f.bottom }));
  if (anchor().outputs) f.parts.push(shape("circle", { class: "actual", cx: sx(anchor().values[state.along]), cy: sy(anchor().outputs[state.output]), r: 5 }));
  alongChart.describe = (place) => alongText(o, input, curves, at, nearest(input.values, place.x), place.y);
}

function drawViolins(o, input, curves, at, near, ends, key) {
  const n = input.values.length;
  const places = input.texts.map((text, value) => ({ value, text: text.length > 12 ? `${text.slice(0, 11)}\u2026` : text }));
  const f = alongChart.frame([-0.6, n - 0.4], ends, { x: named(input), y: named(o), places }, key);
  const { sx, sy } = f;
  alongChart.paint(() => () => 0);
  const top = Math.max(...curves.map((k) => o.peaks[k]));
  const tallest = sy(ends[0]) - sy(ends[1]);
  curves.forEach((k, i) => {
    const values = density(o, k);
    const side = (sign) => Array.from(values, (v, j) => [sx(i + (sign * VIOLIN * v) / top), sy(o.low + j * o.step)]);
    f.parts.push(shape("path", { class: "half violin", d: path([...side(1), ...side(-1).reverse()]) + "Z" }));
    f.parts.push(shape("line", { class: "strip-most", x1: sx(i), x2: sx(i), y1: sy(at[i].q05), y2: sy(at[i].q95) }));
    f.parts.push(shape("line", { class: "strip-half", x1: sx(i), x2: sx(i), y1: sy(at[i].q25), y2: sy(at[i].q75) }));
    f.parts.push(shape("line", { class: "median", x1: sx(i - 0.1), x2: sx(i + 0.1), y1: sy(at[i].q50), y2: sy(at[i].q50) }));
    for (const y of modes(o, values)) f.parts.push(shape("circle", { class: "mode-dot", cx: sx(i).toFixed(1), cy: sy(y).toFixed(1), r: 2 }));
  });
  const jitter = (row) => 0.24 * ((row * 0.618034) % 1) - 0.12;
  alongChart.points(near.filter(({ row }) => input.values.includes(rows.inputs[state.along][row])), (row) => [
    sx(input.values.indexOf(rows.inputs[state.along][row]) + jitter(row)), sy(rows.outputs[state.output][row]),
  ]);
  const place = state.places[state.along] ?? input.values.indexOf(anchor().values[state.along]);
  if (place >= 0) f.parts.push(shape("rect", { class: "chosen", x: sx(place - 0.48), width: sx(0.96) - sx(0), y: f.top, height: tallest }));
  alongChart.describe = (spot) => alongText(o, input, curves, at, clamp(Math.round(spot.x), 0, n - 1), spot.y);
}

function alongText(o, input, curves, at, place, y) {
  const s = at[place];
  return [
    `${input.label} ${withUnit(input.texts[place], input.unit)}`,
    `${o.label} ${withUnit(o.write(y), o.unit)}: density ${heightAt(o, density(o, curves[place]), y).toPrecision(3)}`,
    `median ${withUnit(o.write(s.q50), o.unit)}, 90% ${withUnit(`${o.write(s.q05)} to ${o.write(s.q95)}`, o.unit)}`,
  ];
}

/** Move the input to where the chart was touched. */
function touchAlong(event) {
  if (!event.buttons || !alongChart.f) return;
  const input = inputs[state.along];
  const at = alongChart.at(event);
  const place = input.kind === "slider" ? nearest(input.values, at.x) : clamp(Math.round(at.x), 0, input.values.length - 1);
  if (place === state.places[state.along]) return;
  changed(move(state.along, place));
}
