// ---- predicted against actual ----------------------------------------------------
const actualChart = rows && new Chart(byId("actual"), "predicted and actual", 0.55, () => drawActual());

function drawActual() {
  const o = outputs[state.output];
  const predicted = rows.predicted[state.output];
  const actual = rows.outputs[state.output];
  const every = [...predicted.q50, ...actual].sort((a, b) => a - b);
  const ends = [every[Math.floor(0.002 * (every.length - 1))], every[Math.ceil(0.998 * (every.length - 1))]];
  const margin = 0.05 * (ends[1] - ends[0]) || 1;
  const range = [ends[0] - margin, ends[1] + margin];
  const unit = o.unit ? ` [${o.unit}]` : "";
  const labels = { x: `predicted median of ${o.label}${unit}`, y: `${o.label}${unit}` };
  const f = actualChart.frame(range, range, labels, String(state.output));
  actualChart.paint(() => () => 0);
  f.parts.push(shape("path", { class: "ideal", d: path([[f.sx(range[0]), f.sy(range[0])], [f.sx(range[1]), f.sy(range[1])]]) }));
  const inside = (row) => actual[row] >= predicted.q5[row] && actual[row] <= predicted.q95[row];
  const all = Array.from({ length: rows.n }, (_, row) => ({ row, weight: 1 }));
  actualChart.points(all, (row) => [f.sx(predicted.q50[row]), f.sy(actual[row]), inside(row) ? "point" : "point outside"]);
  for (const a of data.anchors.filter((one) => one.number !== null)) {
    const row = rows.numbers.indexOf(a.number);
    f.parts.push(shape("circle", { class: "worst", cx: f.sx(predicted.q50[row]), cy: f.sy(actual[row]), r: 6, "data-row": a.number }));
  }
  const held = all.filter(({ row }) => inside(row)).length;
  actualChart.show(`${o.label} against what was predicted: ${held} of ${rows.n} rows inside their 90% interval`);
}
