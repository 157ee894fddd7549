"use strict";
const token = new URLSearchParams(location.search).get("token");
const COLOURS = ["#b8430a", "#0b7a6e", "#a1167f", "#8a6d00", "#5b4bd1", "#4f7d1a"];
const SIZE = { width: 720, height: 380, left: 58, right: 14, top: 14, bottom: 44 };
const STATISTICS = ["mean", "sd", "q05", "q25", "q50", "q75", "q95"];
const state = { at: {}, target: null, kept: [] };
let model = null, shown = null, asking = null, again = false;

const $ = id => document.getElementById(id);
const fixed = (value, decimals) => decimals > 7 || Math.abs(value) >= 1e9 ? value.toExponential(3) : value.toFixed(decimals);
const decimalsOf = step => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

/* a number as fine as matters beside a spread: 2600 and not 2.6e3, 10002 and not 10000 */
function digits(value, sd) {
  if (value === null) return "–";
  if (!(sd > 0)) return String(Number(value.toPrecision(6)));
  return fixed(value, decimalsOf(sd / 200));
}

function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

async function ask(path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  const options = body ? { method: "POST", body: JSON.stringify(body), headers } : { headers };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

/* the inputs */
function valueOf(at) { return typeof at === "object" ? at.value : at; }
function sdOf(at) { return typeof at === "object" ? at.sd : 0; }

function setInput(name, value, sd) {
  state.at[name] = sd > 0 ? { value, sd } : value;
  changed();
}

function control(input, i) {
  const box = make("fieldset", { class: "input" }, make("legend", {}, input.name));
  const at = state.at[input.name];
  if (input.kind === "category") {
    const select = make("select", { id: `input-${i}`, "aria-label": input.name });
    for (const label of input.labels) select.append(make("option", { value: label }, label));
    select.value = at;
    select.addEventListener("input", () => setInput(input.name, select.value, 0));
    box.append(select);
    return box;
  }
  const number = make("input", { id: `input-${i}`, type: "number", step: "any", "aria-label": input.name });
  const spread = make("input", { id: `sd-${i}`, type: "number", step: "any", min: 0, placeholder: "exact",
    "aria-label": `standard deviation of ${input.name}`, title: "standard deviation, where the input is uncertain" });
  number.value = valueOf(at);
  if (sdOf(at) > 0) spread.value = sdOf(at);
  let slider = null;
  const read = () => {
    const value = number.valueAsNumber, sd = spread.value === "" ? 0 : spread.valueAsNumber;
    if (!Number.isFinite(value) || !(sd >= 0)) return;
    if (slider) slider.value = value;
    setInput(input.name, value, sd);
  };
  if (input.lower !== undefined && input.upper > input.lower) {
    const step = (input.upper - input.lower) / 200;
    slider = make("input", { id: `slider-${i}`, type: "range", min: input.lower, max: input.upper, step, "aria-label": `${input.name}, slider` });
    slider.value = valueOf(at);
    slider.addEventListener("input", () => { number.value = Number(slider.valueAsNumber.toPrecision(4)); read(); });
    box.append(slider);
  }
  number.addEventListener("input", read);
  spread.addEventListener("input", read);
  box.append(make("div", { class: "pair" }, number, "±", spread));
  return box;
}

/* asking: one question at a time, and the last one always */
function changed() {
  history.replaceState(null, "", `${location.pathname}${location.search}#${encodeURIComponent(JSON.stringify(state))}`);
  if (asking) { again = true; return; }
  asking = refresh().finally(() => {
    asking = null;
    if (again) { again = false; changed(); }
  });
}

async function refresh() {
  try {
    const found = await ask("density", { at: state.at, target: state.target });
    shown = found;
    $("error").hidden = true;
    $("notes").textContent = found.notes.join(" ");
    draw();
  } catch (error) {
    $("error").textContent = error.message;
    $("error").hidden = false;
  }
}

/* the chart */
function ticks(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step / 1e6; k++) found.push({ value: k * step, text: fixed(k * step, decimalsOf(step)).replace(/^-(0(\.0+)?)$/, "$1") });
  return found;
}

/* room for the numbers upwards, so that the name of the axis stands beside them */
function makeRoom(ys) {
  SIZE.left = Math.max(58, 34 + 8 * Math.max(0, ...ys.map(t => t.text.length)));
}

function scale(low, high, from, to) {
  const factor = high > low ? (to - from) / (high - low) : 0;
  return value => from + (value - low) * factor;
}

function frame(x, y, xs, ys, xLabel, yLabel) {
  const { width, height, left, right, top, bottom } = SIZE, svg = make("svg", { viewBox: `0 0 ${width} ${height}` });
  for (const { value, text } of xs) svg.append(
    make("line", { class: "axis", x1: x(value), x2: x(value), y1: top, y2: height - bottom }),
    make("text", { class: "x", x: x(value), y: height - bottom + 17, "text-anchor": "middle" }, text));
  for (const { value, text } of ys) svg.append(
    make("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    make("text", { class: "y", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, text));
  svg.append(
    make("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel),
    make("text", { transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel));
  return svg;
}

function path(x, y, values, heights) {
  return values.map((v, i) => `${i ? "L" : "M"}${x(v).toFixed(1)} ${y(heights[i] ?? 0).toFixed(1)}`).join("");
}

function drawCurve() {
  const [name] = shown.targets, values = shown.values[name];
  const kept = state.kept.filter(k => k.target === name);
  const all = kept.flatMap(k => k.values).concat(values);
  const low = Math.min(...all), high = Math.max(...all);
  const top_ = Math.max(...kept.flatMap(k => k.density), ...shown.density) || 1;
  const ys = ticks(0, top_ * 1.05);
  makeRoom(ys);
  const { width, height, left, right, top, bottom } = SIZE;
  const x = scale(low, high, left, width - right), y = scale(0, top_ * 1.05, height - bottom, top);
  const svg = frame(x, y, ticks(low, high), ys, name, "density");
  const line = path(x, y, values, shown.density), floor = y(0).toFixed(1);
  svg.append(make("path", { class: "area", d: `${line}L${x(values.at(-1)).toFixed(1)} ${floor}L${x(values[0]).toFixed(1)} ${floor}Z` }));
  kept.forEach(k => svg.append(make("path", { class: "kept", stroke: k.colour, d: path(x, y, k.values, k.density) })));
  svg.append(make("path", { id: "curve", class: "curve", d: line }));
  const mean = shown.summary[name].mean;
  if (mean !== null) svg.append(make("line", { class: "mean", x1: x(mean), x2: x(mean), y1: top, y2: height - bottom }));
  return svg;
}

function drawJoint() {
  const [first, second] = shown.targets, us = shown.values[first], vs = shown.values[second];
  const ys = ticks(vs[0], vs.at(-1));
  makeRoom(ys);
  const { width, height, left, right, top, bottom } = SIZE;
  const x = scale(us[0], us.at(-1), left, width - right), y = scale(vs[0], vs.at(-1), height - bottom, top);
  const most = Math.max(...shown.density.flat()) || 1;
  const svg = frame(x, y, ticks(us[0], us.at(-1)), ys, first, second);
  const w = (width - left - right) / (us.length - 1), h = (height - top - bottom) / (vs.length - 1);
  const cells = make("g", { id: "cells" });
  shown.density.forEach((row, i) => row.forEach((p, j) => {
    const share = Math.max(0, p ?? 0) / most;
    if (share < 0.004) return;
    cells.append(make("rect", { x: x(us[i]) - w / 2, y: y(vs[j]) - h / 2, width: w + 0.4, height: h + 0.4,
      fill: `rgb(var(--accent-rgb) / ${Math.sqrt(share).toFixed(3)})` }));
  }));
  svg.insertBefore(cells, svg.firstChild);
  return svg;
}

function draw() {
  SIZE.width = Math.max(300, Math.min(720, $("chart").clientWidth || 720));
  SIZE.height = Math.max(240, Math.round(SIZE.width * 0.53));
  const joint = shown.targets.length === 2;
  $("chart").replaceChildren(joint ? drawJoint() : drawCurve());
  const told = (t, s) => digits(shown.summary[t][s], shown.summary[t].sd);
  const said = shown.targets.map(t => `${t}: mean ${told(t, "mean")}, 90 % between ${told(t, "q05")} and ${told(t, "q95")}`);
  $("chart").setAttribute("aria-label", `Density of ${shown.targets.join(" and ")}. ${said.join(". ")}.`);
  $("keep").disabled = joint;
  $("forget").disabled = state.kept.length === 0;
  const table = make("table", {}, make("tr", {}, make("th", {}), ...STATISTICS.map(s => make("th", { scope: "col" }, s))));
  for (const t of shown.targets) table.append(make("tr", {}, make("th", { scope: "row" }, t),
    ...STATISTICS.map(s => make("td", { "data-stat": s }, told(t, s)))));
  $("answers").replaceChildren(table);
  $("kept").replaceChildren(...state.kept.map(k => {
    const mark = make("span");
    mark.style.borderColor = k.colour;
    return make("li", {}, mark, `${k.target} given ${k.label}`);
  }));
}

/* the buttons */
function words(at) {
  return Object.entries(at).map(([n, v]) => `${n} = ${valueOf(v)}${sdOf(v) > 0 ? ` ± ${sdOf(v)}` : ""}`).join(", ");
}

function keep() {
  const [target] = shown.targets, round = list => list.map(v => Number(Number(v ?? 0).toPrecision(5)));
  const every = Math.ceil(shown.density.length / 120), thin = (_, i) => i % every === 0;
  state.kept.push({ target, label: words(state.at), colour: COLOURS[state.kept.length % COLOURS.length],
    values: round(shown.values[target].filter(thin)), density: round(shown.density.filter(thin)) });
  changed();
}

function csv() {
  const quoted = name => /[",\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
  const lines = [[...shown.targets, "density"].map(quoted).join(",")];
  const [first, second] = shown.targets;
  shown.values[first].forEach((u, i) => {
    if (second === undefined) lines.push(`${u},${shown.density[i] ?? ""}`);
    else shown.values[second].forEach((v, j) => lines.push(`${u},${v},${shown.density[i][j] ?? ""}`));
  });
  return `${lines.join("\n")}\n`;
}

function download() {
  const url = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  const anchor = make("a", { href: url, download: `${shown.targets.join("-")}.csv` });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function copyLink() {
  try { await navigator.clipboard.writeText(location.href); $("link").textContent = "Copied"; }
  catch { $("link").textContent = "Copy it from the address bar"; }
  setTimeout(() => { $("link").textContent = "Copy link"; }, 2000);
}

/* the beginning */
function restored() {
  try { return JSON.parse(decodeURIComponent(location.hash.slice(1))) || {}; } catch { return {}; }
}

function fill() {
  const before = restored(), known = before.at && typeof before.at === "object" ? before.at : {};
  state.at = Object.fromEntries(model.inputs.map(input => [input.name, known[input.name] ?? input.usual]));
  const choices = model.targets.map(t => [t]);
  for (let i = 0; i < model.targets.length; i++) for (let j = i + 1; j < model.targets.length; j++) choices.push([model.targets[i], model.targets[j]]);
  const select = $("target");
  select.replaceChildren(...choices.map((names, i) => make("option", { value: i }, names.join(" and "))));
  const wanted = JSON.stringify(before.target ?? (model.targets.length === 2 ? choices.at(-1) : choices[0]));
  select.value = Math.max(0, choices.findIndex(names => JSON.stringify(names) === wanted));
  state.target = choices[select.value];
  state.kept = Array.isArray(before.kept) ? before.kept.filter(k => Array.isArray(k.values) && Array.isArray(k.density)) : [];
  select.oninput = () => { state.target = choices[select.value]; changed(); };
  $("controls").replaceChildren(...model.inputs.map(control));
  changed();
}

async function begin() {
  try {
    model = await ask("model");
    document.title = `${model.name}: ${model.targets.join(", ")}`;
    $("title").textContent = model.targets.join(", ");
    $("subtitle").textContent = `${model.name}, given ${model.inputs.map(i => i.name).join(", ")}`;
    if (token) $("api").href = `openapi.json?token=${encodeURIComponent(token)}`;
    fill();
    $("keep").addEventListener("click", keep);
    $("forget").addEventListener("click", () => { state.kept = []; changed(); });
    $("link").addEventListener("click", copyLink);
    $("download").addEventListener("click", download);
    addEventListener("hashchange", fill);
    addEventListener("resize", () => { if (shown) draw(); });
  } catch (error) {
    $("error").textContent = error.message;
    $("error").hidden = false;
  }
}
$("controls").addEventListener("submit", event => event.preventDefault());
begin();
