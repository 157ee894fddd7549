// ---- words, and everything drawn ---------------------------------------------------
function answers(o, now) {
  const { found, tops } = now;
  const one = (v) => withUnit(o.write(v), o.unit);
  const some = (intervals) => withUnit(intervals.map(([a, b]) => `${o.write(a)} to ${o.write(b)}`).join(" and "), o.unit);
  const lines = [
    ["Mean", one(found.mean)],
    ["Median", one(found.q50)],
    [tops.length === 1 ? "Mode" : "Modes", withUnit(tops.map(o.write).join(" and "), o.unit)],
    ["50% interval", some([[found.q25, found.q75]])],
    ["90% interval", some([[found.q05, found.q95]])],
    ["50% of highest density", some(now.region50)],
    ["90% of highest density", some(now.region90)],
  ];
  if (anchor().outputs) {
    const actual = anchor().outputs[state.output];
    lines.push([`Actual, row ${anchor().number}`, `${one(actual)} (${(100 * below(o, now.values, actual)).toFixed(1)}% below)`]);
  }
  return lines;
}

let speaking = 0;
function speak(text) {
  clearTimeout(speaking); // wait until the slider rests
  speaking = setTimeout(() => { byId("spoken").textContent = text; }, 400);
}

/** All that is known of the distribution that is shown. */
function present(o) {
  const k = curveHere();
  const values = density(o, k);
  return {
    k, values, found: statistics(o, k), tops: modes(o, values),
    region50: region(o, values, 0.5), region90: region(o, values, 0.9),
  };
}

function draw() {
  const o = outputs[state.output];
  const now = present(o);
  const lines = answers(o, now);
  const text = `Density of ${o.label}. ` + lines.map(([name, value]) => `${name} ${value}`).join(", ");
  drawDensity(o, now, text);
  byId("readout").replaceChildren(...lines.map(([name, value]) => {
    const row = html("div");
    row.append(html("dt", {}, name), html("dd", {}, value));
    return row;
  }));
  byId("probability").textContent = Number.isNaN(threshold) ? "" : `= ${(100 * below(o, now.values, threshold)).toFixed(1)}%`;
  if (movable.length) drawAlong(o);
  drawJoint(now);
  speak(text);
}

/** What the inputs do not move, too. */
function drawAll() {
  draw();
  if (actualChart) drawActual();
}

build();
fillControls();
chooseOutput(0);
followLink();
addEventListener("hashchange", followLink);
let width = byId("density").clientWidth;
new ResizeObserver(() => {
  if (byId("density").clientWidth === width) return;
  width = byId("density").clientWidth;
  drawAll();
}).observe(byId("density"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
