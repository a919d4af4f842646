// The explorer: choose rows of the tidy tables, see them as curves, and find each in its table.
"use strict";

(() => {
  const tool = document.getElementById("explorer");
  if (!tool) return;
  const find = (name) => tool.querySelector(`[data-${name}]`);
  const { sweeps, looks } = JSON.parse(document.getElementById("explorer-data").textContent);
  const QUANTITIES = {
    fraction_of_copy: { label: "fraction of copy", low: "fraction_low", high: "fraction_high" },
    useful_gbps: { label: "useful GB/s" },
    median_us: { label: "microseconds", low: "ci_low_us", high: "ci_high_us" },
    speedup_vs_torch: { label: "speed against torch", low: "speedup_low", high: "speedup_high" },
  };
  const ALL = "all";
  const DTYPES = ["float32", "float16", "bfloat16"];
  const FIRST = ["copy", "torch_eager", "torch_compile", "triton_row", "triton_online", "cuda_float4", "cuda_block_row", "frontier", "quack"];
  const hidden = new Set(Object.keys(looks).filter((name) => !FIRST.includes(name)));
  let drawn = [];
  let current = -1;
  let marked = -1;

  const table = () => sweeps[find("sweep").value];
  const text = (column, i) => table().codes[column][table().at[column][i]];
  const shown = (v) => (v === null ? "–" : v.toLocaleString("en", { maximumSignificantDigits: 4 }));

  function fill(select, values, label = (v) => v) {
    const before = select.value;
    select.replaceChildren(...values.map((v) => new Option(label(v), v)));
    if (values.map(String).includes(before)) select.value = before;
    select.closest("label").hidden = values.length < 2;
  }

  const distinct = (values) => [...new Set(values)];
  const indices = () => table().rows.map((_, i) => i);
  const number = (a, b) => a - b;

  // A row without a time belongs to every timer: none could time it.
  function chosen() {
    const timer = find("timer").value;
    return indices().filter((i) => text("dtype", i) === find("dtype").value && [timer, "none"].includes(text("timer", i)));
  }

  function offer() {
    const t = table();
    fill(find("timer"), t.codes.timer.filter((v) => v !== "none"), (v) => (v === "call" ? "what the caller waits for" : "device"));
    fill(find("dtype"), [...t.codes.dtype].sort((a, b) => DTYPES.indexOf(a) - DTYPES.indexOf(b)));
    const axes = ["cols", "rows"].filter((axis) => distinct(t[axis]).length > 1);
    fill(find("axis"), axes, (v) => ({ cols: "columns", rows: "rows" })[v]);
    offerFixed();
    offerVariants();
  }

  // A row of no whole number of 16-byte vectors starts anywhere between two, and is another case.
  function whole(i) {
    const bytes = table().cols[i] * (text("dtype", i) === "float32" ? 4 : 2);
    return bytes % 16 ? "off 16 bytes" : "whole vectors";
  }

  // Where a curve would have two points at one x, the other axis is held.
  function offerFixed() {
    const t = table();
    const axis = find("axis").value;
    const other = axis === "cols" ? "rows" : "cols";
    const seen = new Set();
    const double = chosen().some((i) => {
      const at = `${text("variant", i)} ${text("timer", i)} ${t[axis][i]}`;
      return seen.size === seen.add(at).size;
    });
    const values = double ? distinct(chosen().map((i) => t[other][i])).sort(number) : [];
    fill(find("fixed"), values, (v) => v.toLocaleString("en"));
    find("fixed-name").textContent = other === "cols" ? "columns" : "rows";
    find("fixed").closest("label").hidden = !double;
    // Of one width there is one kind.
    const kinds = double && other === "cols" ? [] : ["whole vectors", "off 16 bytes"].filter((kind) => chosen().some((i) => whole(i) === kind));
    fill(find("lie"), kinds.length > 1 ? [...kinds, ALL] : kinds);
  }

  // Whether some of a variant's rows were measured with earlier code: hollow, as in the figures.
  const isStale = (variant) => indices().some((i) => table().stale[i] && text("variant", i) === variant);

  function offerVariants() {
    const names = Object.keys(looks).filter((name) => table().codes.variant.includes(name));
    find("variants").replaceChildren(...names.map((name) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = name;
      box.checked = !hidden.has(name);
      box.addEventListener("change", () => {
        box.checked ? hidden.delete(name) : hidden.add(name);
        draw();
      });
      label.append(box, Chart.key(looks[name], isStale(name)), looks[name].label);
      return label;
    }));
  }

  function all(on) {
    for (const box of find("variants").querySelectorAll("input")) {
      box.checked = on;
      on ? hidden.delete(box.value) : hidden.add(box.value);
    }
    draw();
  }

  // GB/s have the interval of the time that they come from.
  function interval(i, name) {
    const t = table();
    if (name === "useful_gbps") {
      const work = t.useful_gbps[i] * t.median_us[i];
      return t.ci_low_us[i] === null ? [null, null] : [work / t.ci_high_us[i], work / t.ci_low_us[i]];
    }
    return [t[QUANTITIES[name].low][i], t[QUANTITIES[name].high][i]];
  }

  function visible() {
    const other = find("axis").value === "cols" ? "rows" : "cols";
    const fixed = find("fixed").closest("label").hidden ? null : Number(find("fixed").value);
    const lie = find("lie").value || ALL;
    return chosen().filter((i) =>
      !hidden.has(text("variant", i)) && (fixed === null || table()[other][i] === fixed) && [whole(i), ALL].includes(lie));
  }

  // As many units as the screen has pixels: letters stay as large on a phone.
  const width = () => Math.max(300, Math.min(760, find("chart").parentNode.clientWidth - 16));

  function draw() {
    const t = table();
    const name = find("quantity").value;
    const rows = visible();
    const series = distinct(rows.map((i) => text("variant", i)))
      .sort((a, b) => Object.keys(looks).indexOf(a) - Object.keys(looks).indexOf(b))
      .map((variant) => ({
        variant,
        look: looks[variant],
        points: rows.filter((i) => text("variant", i) === variant).map((i) => {
          const [low, high] = interval(i, name);
          return { x: t[find("axis").value][i], y: t[name][i], low, high, index: i, wrong: text("status", i) === "wrong", stale: t.stale[i] === 1 };
        }).sort((a, b) => a.x - b.x),
      }));
    drawn = Chart.draw(find("chart"), series, {
      xLog: find("x-log").checked, yLog: find("y-log").checked,
      xLabel: find("axis").selectedOptions[0]?.textContent ?? "", yLabel: QUANTITIES[name].label,
    }, width());
    find("question").textContent = t.question;
    const stale = series.filter((s) => s.points.some((p) => p.stale && p.y !== null)).map((s) => s.look.label);
    find("hollow").hidden = !stale.length;
    find("hollow").textContent = `Hollow markers: measured with earlier code of ${stale.join(", ")}.`;
    marked = -1;
    select(-1);
    if (find("details").open) list();
  }

  // --- One point --------------------------------------------------------------------------------

  function say(i) {
    const t = table();
    const out = find("readout");
    const label = looks[text("variant", i)].label;
    out.replaceChildren();
    const strong = document.createElement("b");
    strong.textContent = `${label}, ${t.rows[i].toLocaleString("en")} × ${t.cols[i].toLocaleString("en")}, ${text("dtype", i)}: `;
    out.append(strong);
    if (text("status", i) !== "ok") out.append(`${text("status", i)}, ${text("reason", i) || "no reason recorded"}. `);
    else {
      const parts = Object.entries(QUANTITIES).filter(([name]) => t[name][i] !== null).map(([name, q]) => {
        const [low, high] = interval(i, name);
        const span = low === null ? "" : ` (${shown(low)} to ${shown(high)})`;
        return `${q.label} ${shown(t[name][i])}${span}`;
      });
      out.append(`${parts.join("; ")}. `);
    }
    if (t.stale[i]) out.append("Hollow: measured with earlier code of this kernel. ");
    const link = document.createElement("a");
    link.href = `#row-${find("sweep").value}-${t.line[i]}`;
    link.textContent = `line ${t.line[i]} of tidy/${find("sweep").value}.csv`;
    link.addEventListener("click", (event) => {
      // The chart stays as it is, which a new address would not allow; the address is set all the same.
      event.preventDefault();
      history.replaceState(null, "", link.hash);
      reveal(i);
    });
    out.append(link);
  }

  function select(n) {
    drawn[current]?.mark.classList.remove("on");
    drawn[current]?.mark.querySelector(".halo").removeAttribute("stroke");
    current = n;
    if (n < 0) {
      find("readout").textContent = "Point at a marker, tap it, or focus the chart and use the arrow keys.";
      return;
    }
    drawn[n].mark.classList.add("on");
    drawn[n].mark.querySelector(".halo").setAttribute("stroke", "#000");
    drawn[n].mark.parentNode.append(drawn[n].mark);
    say(drawn[n].index);
  }

  function nearest(event) {
    const box = find("chart").getBoundingClientRect();
    const per = width() / box.width;
    const [px, py] = [(event.clientX - box.left) * per, (event.clientY - box.top) * per];
    let best = -1;
    let least = 30;
    drawn.forEach((p, n) => {
      const far = Math.hypot(p.cx - px, p.cy - py);
      if (far < least) [least, best] = [far, n];
    });
    if (best >= 0 && best !== current) select(best);
  }

  function move(event) {
    if (!drawn.length || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    if (current < 0) return select(0);
    const here = drawn[current];
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const next = current + (event.key === "ArrowRight" ? 1 : -1);
      return select(drawn[next]?.series === here.series ? next : current);
    }
    const to = here.series + (event.key === "ArrowDown" ? 1 : -1);
    const others = drawn.map((p, n) => [Math.abs(p.cx - here.cx), n]).filter(([, n]) => drawn[n].series === to);
    return others.length ? select(others.sort((a, b) => a[0] - b[0])[0][1]) : undefined;
  }

  // --- The rows ---------------------------------------------------------------------------------

  function list() {
    const t = table();
    const lines = visible().map((i) => {
      const row = document.createElement("tr");
      row.classList.toggle("on", i === marked);
      row.id = `row-${find("sweep").value}-${t.line[i]}`;
      const cells = [t.line[i], text("variant", i), text("timer", i), text("dtype", i), t.rows[i], t.cols[i], text("status", i) + (text("reason", i) ? `: ${text("reason", i)}` : ""),
        t.median_us[i], t.ci_low_us[i], t.ci_high_us[i], t.useful_gbps[i], t.fraction_of_copy[i], t.fraction_low[i], t.fraction_high[i], t.speedup_vs_torch[i], t.stale[i] ? "stale" : ""];
      for (const cell of cells) row.insertCell().textContent = cell ?? "–";
      return row;
    });
    find("rows").replaceChildren(...lines);
    find("file").textContent = `tidy/${find("sweep").value}.csv`;
  }

  function reveal(i) {
    marked = i;
    find("details").open = true;
    list();
    const row = document.getElementById(`row-${find("sweep").value}-${table().line[i]}`);
    row.scrollIntoView({ block: "center" });
  }

  // The row that an address such as #row-vocab_scaling-64 names, chosen and shown as its link shows it.
  function open(hash) {
    const [, sweep, line] = /^#row-(\w+)-(\d+)$/.exec(hash) ?? [];
    const i = Object.hasOwn(sweeps, sweep) ? sweeps[sweep].line.indexOf(Number(line)) : -1;
    if (i < 0) return;
    find("sweep").value = sweep;
    hidden.delete(sweeps[sweep].codes.variant[sweeps[sweep].at.variant[i]]);
    offer();
    if (text("timer", i) !== "none") find("timer").value = text("timer", i);
    find("dtype").value = text("dtype", i);
    offerFixed();
    find("fixed").value = table()[find("axis").value === "cols" ? "rows" : "cols"][i];
    find("lie").value = whole(i);
    draw();
    select(drawn.findIndex((p) => p.index === i));
    reveal(i);
  }

  fill(find("sweep"), Object.keys(sweeps), (v) => v.replaceAll("_", " "));
  fill(find("quantity"), Object.keys(QUANTITIES), (v) => QUANTITIES[v].label);
  const again = { sweep: () => offer(), timer: offerFixed, dtype: offerFixed, axis: offerFixed };
  for (const name of ["sweep", "timer", "dtype", "axis", "fixed", "lie", "quantity", "x-log", "y-log"])
    find(name).addEventListener("change", () => {
      again[name]?.();
      draw();
    });
  find("all").addEventListener("click", () => all(true));
  find("none").addEventListener("click", () => all(false));
  find("chart").addEventListener("pointermove", nearest);
  find("chart").addEventListener("pointerdown", nearest);
  find("chart").addEventListener("keydown", move);
  find("details").addEventListener("toggle", () => find("details").open && list());
  // A phone's bars come and go, which changes its height alone.
  let last = width();
  addEventListener("resize", () => {
    if (width() === last) return;
    last = width();
    const [kept, row] = [drawn[current]?.index, marked];
    draw();
    if ((marked = row) >= 0 && find("details").open) list();
    if (kept !== undefined) select(drawn.findIndex((p) => p.index === kept));
  });
  tool.querySelector(".still").hidden = true;
  tool.querySelector(".live").hidden = false;
  offer();
  draw();
  open(location.hash);
  addEventListener("hashchange", () => open(location.hash));
})();
