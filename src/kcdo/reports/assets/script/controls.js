// ---- controls --------------------------------------------------------------------
function choice(id, name, texts, chosen, act) {
  const row = html("p", { class: "control" });
  const select = html("select", { id });
  texts.forEach((text, i) => select.append(new Option(text, String(i), false, i === chosen)));
  select.addEventListener("change", () => act(Number(select.value)));
  const label = html("label", { for: id });
  label.append(html("span", { class: "name" }, name));
  row.append(label, select);
  return row;
}

function slider(i) {
  const input = inputs[i];
  const row = html("p", { class: "control" });
  const range = html("input", { type: "range", id: `input-${i}`, min: 0, max: input.texts.length - 1, step: 1 });
  range.addEventListener("input", () => changed(move(i, Number(range.value))));
  const label = html("label", { for: `input-${i}` });
  label.append(html("span", { class: "name" }, input.label), html("output", { id: `value-${i}`, for: `input-${i}` }));
  row.append(label, range);
  return row;
}

function list(i) {
  const input = inputs[i];
  return choice(`input-${i}`, input.label, input.texts.map((t) => withUnit(t, input.unit)), input.start,
    (place) => changed(move(i, place)));
}

/** Show in the controls where the inputs are. */
function fillControls() {
  inputs.forEach((input, i) => {
    const element = byId(`input-${i}`);
    if (!element) return;
    if (input.kind === "slider") {
      element.value = String(state.places[i] ?? nearest(input.values, anchor().values[i]));
      element.setAttribute("aria-valuetext", textOf(i));
      byId(`value-${i}`).textContent = textOf(i);
      return;
    }
    const place = state.places[i] ?? input.values.indexOf(anchor().values[i]);
    if (place >= 0) element.value = String(place);
    else element.selectedIndex = -1; // a row may have a category that is not in the list
  });
  byId("along").value = String(state.along);
  if (byId("anchor")) byId("anchor").value = String(state.anchor);
}

/** Say which inputs went back because they do not combine with the last change. */
function sayBack(back) {
  const names = back.map((i) => `${inputs[i].label} (${textOf(i)})`);
  byId("back").textContent = names.length
    ? `Back at ${state.anchor ? "the row's values" : "typical values"}: ${names.join(", ")}. Not all inputs combine in this file.`
    : "";
}

function changed(back) {
  sayBack(back);
  fillControls();
  draw();
}

function buttons() {
  const row = html("p", { class: "buttons" });
  const keep = html("button", { type: "button", id: "keep", "aria-pressed": "false" }, "Keep this curve");
  keep.addEventListener("click", () => {
    kept = kept ? null : { output: state.output, values: density(outputs[state.output], curveHere()) };
    keep.setAttribute("aria-pressed", String(Boolean(kept)));
    keep.textContent = kept ? "Drop the kept curve" : "Keep this curve";
    draw();
  });
  const reset = html("button", { type: "button", id: "reset" }, "Typical inputs");
  reset.addEventListener("click", () => showAnchor(0));
  row.append(keep, reset);
  return row;
}

function showAnchor(place) {
  goTo(place);
  changed([]);
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
  state.output = place;
  const o = outputs[place];
  const distanceTo = (t) => Math.abs(t.value - statistics(o, curveHere()).q50);
  const near = ticks(o.low, o.high, 20).reduce((a, b) => (distanceTo(b) < distanceTo(a) ? b : a));
  threshold = Number(near.value.toPrecision(6));
  byId("threshold").value = String(threshold);
  byId("threshold-label").textContent = `Probability that ${o.label} is at most`;
  byId("threshold-unit").textContent = o.unit;
  drawAll();
}

/** Show the row that the address names: links in the table of the worst rows lead here. */
function followLink() {
  const number = /^#row-(\d+)$/.exec(location.hash)?.[1];
  const place = data.anchors.findIndex((a) => String(a.number) === number);
  if (place < 0) return;
  showAnchor(place);
  byId("explore").scrollIntoView();
  byId("anchor").focus({ preventScroll: true });
}

function build() {
  const form = byId("controls");
  form.addEventListener("submit", (event) => event.preventDefault());
  if (outputs.length > 1) form.append(choice("output", "Output", outputs.map((o) => o.label), 0, chooseOutput));
  if (data.anchors.length > 1) form.append(choice("anchor", "Start from", data.anchors.map((a) => (a.number === null ? "Typical inputs" : `Row ${a.number}, predicted badly`)), 0, showAnchor));
  const minor = html("details", { class: "more" });
  minor.append(html("summary", {}, "More inputs"));
  movable.forEach((i, rank) => {
    const control = inputs[i].kind === "slider" ? slider(i) : list(i);
    (rank < 5 || movable.length <= 6 ? form : minor).append(control);
  });
  if (minor.children.length > 1) form.append(minor);
  const held = inputs.flatMap((input, i) => (input.kind === "fixed" ? [`${input.label} = ${textOf(i)}`] : []));
  if (held.length) form.append(html("p", { class: "held" }, `Held at: ${held.join(", ")}`));
  form.append(html("p", { class: "note", id: "back", role: "status" }), heightRow(), buttons(), thresholdRow());
  for (const i of movable) byId("along").append(new Option(inputs[i].label, String(i)));
  byId("along").addEventListener("change", () => changed(goAlong(Number(byId("along").value))));
  for (const kind of ["pointerdown", "pointermove"]) alongChart.plot.addEventListener(kind, touchAlong);
  byId("along-part").hidden = !movable.length;
  byId("joint-part").hidden = !pairs.length;
  if (rows) byId("actual-part").hidden = false;
  for (const link of document.querySelectorAll('a[href^="#row-"]'))
    if (!data.anchors.some((a) => `#row-${a.number}` === link.getAttribute("href"))) link.replaceWith(link.textContent);
  document.querySelector(".explorer").hidden = false;
}
