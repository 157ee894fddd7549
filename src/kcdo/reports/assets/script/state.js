// ---- what is shown: an anchor, the inputs moved away from it, and one input to go along ----------
const inputs = data.inputs;
const movable = inputs.flatMap((input, i) => (input.kind === "fixed" ? [] : [i]));
const state = {
  anchor: 0,
  output: 0,
  along: movable.find((i) => inputs[i].kind === "slider") ?? movable[0] ?? -1,
  moved: [], // most recent first
  places: inputs.map(() => null), // null: as at the anchor
};

const anchor = () => data.anchors[state.anchor];
const anchorName = (a) => (a.number === null ? "Typical inputs" : `Row ${a.number}`);
/** Where an input is: a number, or the code of a category. */
const valueOf = (i) => (state.places[i] === null ? anchor().values[i] : inputs[i].values[state.places[i]]);
const textOf = (i) => withUnit(state.places[i] === null ? anchor().texts[i] : inputs[i].texts[state.places[i]], inputs[i].unit);

/** The grid of the anchor in which these inputs combine. */
const gridOf = (wanted) => data.grids.find((grid) => grid.anchor === state.anchor && wanted.every((i) => grid.inputs.includes(i)));

/** The number of the curve in a grid where inputs are at their places, or at others. */
function curveIn(grid, others = {}) {
  const digit = (i) => others[i] ?? state.places[i] ?? inputs[i].start;
  return grid.first + grid.inputs.reduce((sum, i) => sum * inputs[i].values.length + digit(i), 0);
}

const curveHere = () => curveIn(gridOf(state.moved));
/** The numbers of the curves along the chosen input, for each of its values. */
function curvesAlong() {
  const grid = gridOf([state.along, ...state.moved]);
  return inputs[state.along].values.map((_, place) => curveIn(grid, { [state.along]: place }));
}

/** Take back the inputs that do not combine with those which matter most now; return them. */
function settle(first) {
  const kept = [];
  for (const i of [first, state.along, ...state.moved])
    if (i >= 0 && !kept.includes(i) && gridOf([...kept, i])) kept.push(i);
  const back = state.moved.filter((i) => !kept.includes(i));
  for (const i of back) state.places[i] = null;
  state.moved = state.moved.filter((i) => kept.includes(i));
  if (!kept.includes(state.along)) state.along = kept[0] ?? state.along;
  return back;
}

function move(i, place) {
  state.places[i] = place;
  state.moved = [i, ...state.moved.filter((j) => j !== i)];
  return settle(i);
}

function goAlong(i) {
  state.along = i;
  return settle(i);
}

function goTo(place) {
  state.anchor = place;
  state.places.fill(null);
  state.moved = [];
  settle(state.along);
}

// ---- rows of the data, and how near they are to what is shown ------------------------------------
const rows = data.rows && {
  n: data.rows.n,
  numbers: floats(data.rows.numbers),
  inputs: data.rows.inputs.map(floats),
  outputs: data.rows.outputs.map(floats),
  predicted: data.rows.predicted.map((o) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, floats(v)]))),
};
const FAINTEST = 0.05;
const MOST_POINTS = 600;

/** How far a row is from a value of an input, in units over which predictions move. */
function distance(i, row, value) {
  const { scale, period, names } = inputs[i];
  if (scale === null) return 0;
  let gap = Math.abs(rows.inputs[i][row] - value);
  if (names) gap = gap > 0 ? 1 : 0;
  else if (period) gap = Math.min(gap % period, period - (gap % period));
  return gap / scale;
}

/** The divergence of two Gaussians to second order, which are as wide and where these are. */
function divergence(place, width, other) {
  const [own, its] = [Math.max(width, 1e-30), Math.max(other.width, 1e-30)];
  return 0.5 * ((place - other.place) ** 2 / (own * its) + Math.log(own / its) ** 2);
}

/** The rows near the slice, with their weights, the nearest first; as kcdo.metrics.nearness. */
function nearRows(shown, free, predictedAt) {
  const held = inputs.flatMap((_, i) => (i === free ? [] : [[i, valueOf(i)]]));
  const found = [];
  for (let row = 0; rows && row < rows.n; row++) {
    let exponent = 0;
    for (const [i, value] of held) exponent += distance(i, row, value) ** 2 / 4;
    if (exponent > 3) continue;
    for (const k of shown) {
      const own = rows.predicted[k];
      exponent += 2 * divergence(own.place[row], own.width[row], predictedAt(k, row));
    }
    const weight = Math.exp(-exponent);
    if (weight > FAINTEST) found.push({ row, weight });
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, MOST_POINTS);
}

/** What a row is, in words. */
function rowText(row) {
  const given = inputs.slice(0, 6).map((input, i) => {
    const value = rows.inputs[i][row];
    const text = input.names ? input.names[value] ?? "other" : String(Number(value.toPrecision(5)));
    return `${input.label} ${withUnit(text, input.unit)}`;
  });
  const seen = outputs.map((o, k) => `${o.label} ${withUnit(o.write(rows.outputs[k][row]), o.unit)}`);
  return [`Row ${rows.numbers[row]}`, ...seen, ...given];
}
