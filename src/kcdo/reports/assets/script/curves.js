// ---- the packed curves ---------------------------------------------------
function bytes(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}
const floats = (text) => new Float32Array(bytes(text).buffer);

const outputs = data.outputs.map((o) => {
  const [low, high, size] = o.axis;
  return {
    label: o.label, unit: o.unit, low, high, size,
    step: (high - low) / (size - 1),
    curves: new Uint16Array(bytes(o.curves).buffer),
    peaks: floats(o.peaks),
    statistics: floats(o.statistics),
    usual: o.scale[0], top: o.scale[1],
    write: writer(low, high),
  };
});
const pairs = data.pairs.map((pair) => ({ ...pair, images: bytes(pair.images) }));

function density(o, k) {
  const values = new Float64Array(o.size);
  for (let i = 0; i < o.size; i++) values[i] = (o.curves[k * o.size + i] / 65535) * o.peaks[k];
  return values;
}

function statistics(o, k) {
  const found = {};
  data.statistics.forEach((name, i) => { found[name] = o.statistics[k * data.statistics.length + i]; });
  return found;
}

function heightAt(o, values, y) {
  const t = clamp((y - o.low) / o.step, 0, o.size - 1);
  const i = Math.min(Math.floor(t), o.size - 2);
  return values[i] + (t - i) * (values[i + 1] - values[i]);
}

/** Tops that stand out from the valleys beside them by a tenth of the highest. */
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
    if (values[i] - Math.max(valley(-1), valley(1)) >= 0.1 * top) found.push(o.low + i * o.step);
  }
  return found;
}

/** The share of the mass below a limit. */
function below(o, values, limit) {
  let total = 0;
  let part = 0;
  for (let i = 0; i + 1 < o.size; i++) {
    const left = o.low + i * o.step;
    const share = clamp((limit - left) / o.step, 0, 1);
    const end = values[i] + share * (values[i + 1] - values[i]);
    total += (values[i] + values[i + 1]) / 2;
    part += (share * (values[i] + end)) / 2;
  }
  return total > 0 ? part / total : NaN;
}

/** Where a density that is linear between nodes is at least a height: intervals, and their mass. */
function above(o, values, height) {
  const intervals = [];
  let mass = 0;
  for (let i = 0; i + 1 < o.size; i++) {
    const [a, b] = [values[i], values[i + 1]];
    if (Math.max(a, b) < height) continue;
    const crossing = a === b ? 0 : (height - a) / (b - a);
    const from = a >= height ? 0 : crossing;
    const to = b >= height ? 1 : crossing;
    mass += ((to - from) * (a + from * (b - a) + a + to * (b - a))) / 2;
    const [start, end] = [o.low + (i + from) * o.step, o.low + (i + to) * o.step];
    const last = intervals[intervals.length - 1];
    if (last && start - last[1] < 1e-9 * o.step) last[1] = end;
    else if (to > from) intervals.push([start, end]);
  }
  return { intervals, mass };
}

/** The smallest set of intervals that holds a share of the mass: where the density is highest. */
function region(o, values, share) {
  const total = above(o, values, 0).mass;
  let [low, high] = [0, Math.max(...values)];
  for (let k = 0; k < 40; k++) {
    const middle = (low + high) / 2;
    if (above(o, values, middle).mass >= share * total) low = middle;
    else high = middle;
  }
  return above(o, values, low).intervals;
}
