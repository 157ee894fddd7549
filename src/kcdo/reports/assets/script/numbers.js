// ---- numbers and units ---------------------------------------------------
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

const named = (o) => (o.unit ? `${o.label} [${o.unit}]` : o.label);
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
const nearest = (values, v) => values.reduce((best, value, i) => (Math.abs(value - v) < Math.abs(values[best] - v) ? i : best), 0);
