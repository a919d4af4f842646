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

  const told = (v, digits) => (v === null ? "–" : digits && Number.isFinite(v) ? v.toFixed(digits) : Softmax.shown(v));

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

  function restart() {
    pause();
    const algorithm = find("algorithm").value;
    find("block").disabled = algorithm === "fast";
    steps = Softmax.trace(input, Number(find("block").value), algorithm);
    find("step").max = steps.length - 1;
    show(0);
  }

  function use(values) {
    input = values;
    find("rows").value = input.length;
    find("cols").value = input[0].length;
    offerBlocks();
    restart();
  }

  const written = () => input.map((row) => row.map((v) => (v === -Infinity ? "-inf" : v)).join(" ")).join("\n");

  function write() {
    find("typed").value = written();
    find("error").textContent = "";
  }

  function line(body, head, cells, mark = () => "", span = () => 1) {
    const row = body.insertRow();
    element("th", head, row).scope = "row";
    cells.forEach((text, i) => (element("td", text, row, mark(i)).colSpan = span(i)));
  }

  // The cells at work come into sight: the stage scrolls, the page does not.
  function follow() {
    const stage = find("stage");
    const boxes = [...find("input").querySelectorAll(".now")].map((cell) => cell.getBoundingClientRect());
    if (!boxes.length) return;
    const frame = stage.getBoundingClientRect();
    const heads = stage.querySelector("th").getBoundingClientRect().width;
    const right = Math.max(...boxes.map((box) => box.right)) - frame.right;
    const left = Math.min(...boxes.map((box) => box.left)) - frame.left - heads;
    // Of what is wider than the stage, the first.
    stage.scrollLeft += Math.min(left, Math.max(right, 0));
  }

  function show(step) {
    at = Math.max(0, Math.min(step, steps.length - 1));
    const s = steps[at];
    const writes = s.phase.includes("output");
    const inBlock = (r, c) => r === s.row && c >= s.first && c < s.last;
    const done = (v) => (v === null ? "" : "done");
    for (const name of ["input", "pairs", "output", "known"]) find(name).replaceChildren();
    input.forEach((row, r) => line(find("input"), `in ${r}`, row.map((v) => told(v)), (c) => (inBlock(r, c) ? "now" : "")));
    s.pairs.forEach((pairs, r) => {
      if (!pairs.length) return;
      const block = Number(find("block").value);
      const span = (i) => Math.min(block, input[0].length - i * block);
      // A block leaves its own pair, and reads all of its row.
      const mark = (i) => ((writes ? r === s.row : inBlock(r, i * block)) ? "now" : done(pairs[i]));
      line(find("pairs"), `max ${r}`, pairs.map((p) => told(p && p.max)), mark, span);
      line(find("pairs"), `sum ${r}`, pairs.map((p) => told(p && p.sum, 3)), mark, span);
    });
    s.out.forEach((row, r) => {
      line(find("output"), `out ${r}`, row.map((v) => told(v, 3)), (c) => (writes && inBlock(r, c) ? "now" : done(row[c])));
      const whole = row.every((v) => v !== null);
      const cells = [s.sum[r], whole ? row.reduce((a, b) => a + b, 0) : null, whole ? Softmax.entropy(row) : null];
      line(find("known"), r, [told(s.max[r]), ...cells.map((v) => told(v, 4))]);
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
    // A disabled button would lose the focus.
    find("back").ariaDisabled = at === 0;
    find("forward").ariaDisabled = at === steps.length - 1;
    follow();
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

  const draw = () => use(random(Number(find("rows").value), Number(find("cols").value)));
  const resize = () => {
    // Another size is no reason to lose what was typed and not yet taken.
    const kept = find("typed").value !== written();
    draw();
    if (!kept) write();
  };
  find("random").addEventListener("click", () => {
    draw();
    write();
  });
  find("rows").addEventListener("change", resize);
  find("cols").addEventListener("change", resize);
  find("block").addEventListener("change", restart);
  find("algorithm").addEventListener("change", restart);
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
      use(Softmax.parse(find("typed").value));
      write();
    } catch (error) {
      find("error").textContent = `${error.message}.`;
    }
  });
  find("stage").addEventListener("keydown", (event) => {
    const scroll = (by) => (find("stage").scrollLeft += by);
    const keys = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": run, Home: () => step(-steps.length) };
    const act = (event.shiftKey ? { ArrowRight: () => scroll(60), ArrowLeft: () => scroll(-60) } : keys)[event.key];
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
  use(input);
  write();
})();
