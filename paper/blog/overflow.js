// The live demonstration: softmax as defined and with the maximum subtracted, in few bits.
"use strict";

const Rounding = (() => {
  // float16 by hand: eleven bits, the smallest step 2^-24, infinite from 65,520 on.
  const half = (x) => {
    if (!Number.isFinite(x) || x === 0) return x;
    const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), -14) - 10);
    const scaled = x / step;
    const near = Math.round(scaled);
    const even = Math.abs(scaled - Math.trunc(scaled)) === 0.5 && near % 2 ? near - 1 : near;
    const value = even * step;
    return Math.abs(value) > 65504 ? Math.sign(value) * Infinity : value;
  };
  return { float32: Math.fround, float16: half };
})();

function softmaxIn(round, input, stable) {
  const x = input.map(round);
  const max = stable ? Math.max(...x) : 0;
  const terms = x.map((v) => round(Math.exp(round(v - max))));
  const sum = terms.reduce((s, t) => round(s + t), 0);
  return { terms, sum, out: terms.map((t) => round(t / sum)) };
}

(() => {
  const tool = document.getElementById("overflow");
  if (!tool) return;
  const find = (name) => tool.querySelector(`[data-${name}]`);
  const told = (v) => (Number.isFinite(v) ? (Math.abs(v) >= 1e5 ? v.toExponential(2) : v.toFixed(3)) : v !== v ? "NaN" : "∞");
  const logits = [1, 2, 3];
  // Outputs of a softmax add up to 1, but for rounding.
  const fate = (out) => {
    const sum = out.reduce((a, b) => a + b, 0);
    return Number.isNaN(sum) ? "nan" : Math.abs(sum - 1) < 0.01 ? "right" : "silent";
  };

  function show() {
    const shift = Number(find("shift").value);
    const round = Rounding[find("dtype").value];
    find("amount").textContent = shift;
    const body = find("body");
    body.replaceChildren();
    for (const [label, stable] of [["as defined", false], ["maximum subtracted", true]]) {
      const { terms, sum, out } = softmaxIn(round, logits.map((x) => x + shift), stable);
      const row = body.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = label;
      row.append(head);
      for (const cell of [terms.map(told).join(", "), told(sum), out.map(told).join(", ")]) {
        const td = row.insertCell();
        td.textContent = cell;
        if (/NaN|∞/.test(cell)) td.className = "bad";
      }
      row.lastChild.classList.toggle("bad", fate(out) !== "right");
      if (!stable) for (const said of tool.querySelectorAll("[data-fate]")) said.hidden = said.dataset.fate !== fate(out);
    }
  }
  find("shift").addEventListener("input", show);
  find("dtype").addEventListener("change", show);
  tool.querySelector(".still").hidden = true;
  tool.querySelector(".live").hidden = false;
  show();
})();
