// The visualiser: four kernels on a small matrix, step by step.  Arithmetic is softmax.js.
"use strict";

(() => {
  const tool = document.getElementById("visualiser");
  if (!tool) return;
  const find = (name) => tool.querySelector(`[data-${name}]`);
  const BLOCKS = [1, 2, 4, 8, 16];
  let input = [
    [2, -1, 3, 0.5, -0.5, 1.5, -2, 1],
    [4, -3, 2.5, 1, -1.5, 0, -0.5, 2],
  ];
  let steps = [];
  let at = 0;
  let timer = null;

  const told = (v, digits) => (v === null ? "–" : v !== v ? "NaN" : Number.isFinite(v) ? v.toFixed(digits) : v > 0 ? "∞" : "−∞");

  function option(select, value, label) {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = label ?? value;
    select.append(made);
  }

  function element(name, text, parent, className = "") {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = className;
    parent.append(made);
    return made;
  }

  function random(rows, cols) {
    const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    return Array.from({ length: rows }, () => Array.from({ length: cols }, () => Math.round(normal() * 20) / 10));
  }

  // Blocks wider than the row differ in nothing from one as wide as the row.
  function offerBlocks() {
    const select = find("block");
    const wanted = Number(select.value || 4);
    const cols = input[0].length;
    const offered = BLOCKS.filter((b, i) => i === 0 || BLOCKS[i - 1] < cols);
    select.replaceChildren();
    offered.forEach((b) => option(select, b));
    select.value = offered.includes(wanted) ? wanted : offered[offered.length - 1];
  }

  function restart(values = input) {
    pause();
    input = values;
    find("rows").value = input.length;
    find("cols").value = input[0].length;
    find("typed").value = input.map((row) => row.map((v) => (v === -Infinity ? "-inf" : v)).join(" ")).join("\n");
    find("error").textContent = "";
    offerBlocks();
    const algorithm = find("algorithm").value;
    find("block").disabled = algorithm === "fast";
    steps = Softmax.trace(input, Number(find("block").value), algorithm);
    find("step").max = steps.length - 1;
    show(0);
  }

  function grid(body, values, digits, mark) {
    body.replaceChildren();
    values.forEach((row, r) => {
      const line = body.insertRow();
      const head = element("th", `row ${r}`, line);
      head.scope = "row";
      row.forEach((v, c) => element("td", told(v, digits), line, mark(r, c, v)));
    });
  }

  function show(step) {
    at = Math.max(0, Math.min(step, steps.length - 1));
    const s = steps[at];
    const inBlock = (r, c) => r === s.row && c >= s.first && c < s.last;
    const writes = s.phase.includes("output");
    grid(find("input"), input, 1, (r, c) => (inBlock(r, c) ? "now" : ""));
    grid(find("output"), s.out, 3, (r, c, v) => (writes && inBlock(r, c) ? "now" : v === null ? "" : "done"));
    const known = find("known");
    known.replaceChildren();
    s.out.forEach((row, r) => {
      const whole = row.every((v) => v !== null);
      const line = known.insertRow();
      const cells = [s.max[r], s.sum[r], whole ? row.reduce((a, b) => a + b, 0) : null, whole ? Softmax.entropy(row) : null];
      element("th", r, line).scope = "row";
      cells.forEach((v, i) => element("td", told(v, i ? 4 : 1), line));
    });
    const elements = input.length * input[0].length;
    const counted = (n) => `${n} (${(n / elements).toFixed(2)} an element)`;
    find("reads").textContent = counted(s.reads);
    find("writes").textContent = counted(s.writes);
    find("range").textContent = s.row < 0 ? "–" : `row ${s.row}, columns ${s.first} to ${s.last - 1}`;
    find("phase").textContent = s.phase;
    find("status").textContent = s.told;
    find("step").value = at;
    find("counter").textContent = `step ${at} of ${steps.length - 1}`;
    find("back").disabled = at === 0;
    find("forward").disabled = at === steps.length - 1;
    if (at === steps.length - 1) pause();
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    find("run").textContent = "Run";
    find("status").setAttribute("aria-live", "polite");
  }

  function run() {
    if (timer !== null) return pause();
    if (at === steps.length - 1) show(0);
    // A reader's software would read every step of a run aloud, and lag behind.
    find("status").setAttribute("aria-live", "off");
    find("run").textContent = "Pause";
    timer = setInterval(() => show(at + 1), 2000 / Number(find("speed").value) ** 1.5);
    return undefined;
  }

  function step(by) {
    pause();
    show(at + by);
  }

  Object.entries(Softmax.ALGORITHMS).forEach(([name, label]) => option(find("algorithm"), name, label));
  for (let n = 1; n <= 4; n++) option(find("rows"), n);
  for (let n = 2; n <= 16; n++) option(find("cols"), n);
  find("algorithm").value = "online";

  const redraw = () => restart(random(Number(find("rows").value), Number(find("cols").value)));
  find("random").addEventListener("click", redraw);
  find("rows").addEventListener("change", redraw);
  find("cols").addEventListener("change", redraw);
  find("block").addEventListener("change", () => restart());
  find("algorithm").addEventListener("change", () => restart());
  find("run").addEventListener("click", run);
  find("back").addEventListener("click", () => step(-1));
  find("forward").addEventListener("click", () => step(1));
  find("reset").addEventListener("click", () => step(-steps.length));
  find("step").addEventListener("input", (event) => step(Number(event.target.value) - at));
  find("speed").addEventListener("input", () => {
    if (timer === null) return;
    pause();
    run();
  });
  find("take").addEventListener("click", () => {
    try {
      restart(Softmax.parse(find("typed").value));
    } catch (error) {
      find("error").textContent = `${error.message}.`;
    }
  });
  find("stage").addEventListener("keydown", (event) => {
    const act = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": run, Home: () => step(-steps.length) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  let swipe = null;
  const status = find("status");
  status.addEventListener("touchstart", (event) => (swipe = event.touches[0].clientX), { passive: true });
  status.addEventListener("touchend", (event) => {
    const moved = event.changedTouches[0].clientX - swipe;
    if (Math.abs(moved) > 30) step(moved < 0 ? 1 : -1);
  });

  tool.querySelector(".still").hidden = true;
  tool.querySelector(".live").hidden = false;
  restart();
})();
