// ---- pairs of outputs ------------------------------------------------------------
const jointCharts = pairs.map((pair, i) => {
  const box = html("div", { class: "chart", id: `joint-${i}` });
  byId("joint").append(box);
  const [a, b] = pair.outputs.map((k) => outputs[k].label);
  return new Chart(box, `${a} and ${b}`, pairs.length === 1 ? 0.8 : 0.9, () => draw());
});

/** The height whose region holds a share of the mass of a picture. */
function heightOf(image, share) {
  const sorted = Array.from(image).sort((a, b) => b - a);
  const total = sorted.reduce((sum, v) => sum + v, 0);
  let held = 0;
  for (const value of sorted) {
    held += value;
    if (held >= share * total) return Math.max(value, 0.5);
  }
  return 0.5;
}

/** The line at which a picture (side x side) has a height, as segments between places. */
function contour(image, side, height, place) {
  const value = (i, j) => image[i * side + j];
  const between = (i, j, k, l) => {
    const t = (height - value(i, j)) / (value(k, l) - value(i, j));
    return place(i + t * (k - i), j + t * (l - j));
  };
  let d = "";
  for (let i = 0; i + 1 < side; i++) {
    for (let j = 0; j + 1 < side; j++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const ends = [];
      corners.forEach(([a, b], k) => {
        const [c, e] = corners[(k + 1) % 4];
        if (value(a, b) >= height !== value(c, e) >= height) ends.push(between(a, b, c, e));
      });
      for (let k = 0; k + 1 < ends.length; k += 2) d += path([ends[k], ends[k + 1]]);
    }
  }
  return d;
}

function drawJoint(now) {
  pairs.forEach((pair, number) => {
    const chart = jointCharts[number];
    const [a, b] = pair.outputs.map((k) => outputs[k]);
    const { side } = pair;
    const image = pair.images.subarray(now.k * side * side, (now.k + 1) * side * side);
    const f = chart.frame([a.low, a.high], [b.low, b.high], { x: named(a), y: named(b) }, "");
    const cell = (o, v) => clamp(((v - o.low) / (o.high - o.low)) * (side - 1), 0, side - 1.001);
    const heightAtPlace = (x, y) => {
      const [u, v] = [cell(a, x), cell(b, y)];
      const [i, j] = [Math.floor(u), Math.floor(v)];
      const [s, t] = [u - i, v - j];
      const at = (k, l) => image[(i + k) * side + j + l];
      return ((1 - s) * ((1 - t) * at(0, 0) + t * at(0, 1)) + s * ((1 - t) * at(1, 0) + t * at(1, 1))) / 255;
    };
    chart.paint((x) => (y) => heightAtPlace(x, y));
    const place = (i, j) => [f.sx(a.low + (i / (side - 1)) * (a.high - a.low)), f.sy(b.low + (j / (side - 1)) * (b.high - b.low))];
    for (const [kind, share] of [["contour-90", 0.9], ["contour-50", 0.5]])
      f.parts.push(shape("path", { class: `contour ${kind}`, d: contour(image, side, heightOf(image, share), place) || "M0,0" }));
    const near = nearRows(pair.outputs, -1, (k) => statistics(outputs[k], now.k));
    chart.points(near, (row) => [f.sx(rows.outputs[pair.outputs[0]][row]), f.sy(rows.outputs[pair.outputs[1]][row])]);
    const [x, y] = [f.sx(statistics(a, now.k).mean), f.sy(statistics(b, now.k).mean)];
    f.parts.push(shape("path", { class: "here", d: `M${x - 6},${y}h12M${x},${y - 6}v12` }));
    if (anchor().outputs)
      f.parts.push(shape("circle", { class: "actual", cx: f.sx(anchor().outputs[pair.outputs[0]]), cy: f.sy(anchor().outputs[pair.outputs[1]]), r: 5 }));
    chart.describe = (at) => [
      `${a.label} ${withUnit(a.write(at.x), a.unit)}`,
      `${b.label} ${withUnit(b.write(at.y), b.unit)}`,
      `${(100 * heightAtPlace(at.x, at.y)).toFixed(0)}% of the highest density`,
    ];
    chart.show(`Joint density of ${a.label} and ${b.label}, with ${near.length} rows near these inputs`);
  });
}
