// Softmax step by step, as four kernels do it: arithmetic alone, no page.
//
// Softmax.trace(input, block, algorithm) gives the steps; every step is all that is known after it.
// Reads and writes count elements of memory; what is kept on chip costs none.
"use strict";

const Softmax = (() => {
  const ALGORITHMS = {
    fast: "fast: the row in one block",
    three: "three-pass: maximum, sum, output",
    online: "online: maximum and sum in one pass",
    split: "row split: blocks of a row side by side",
  };

  const highest = (values) => values.reduce((a, b) => (a !== a || b !== b ? NaN : Math.max(a, b)), -Infinity);

  // (maximum, sum of exponentials relative to it).  Of nothing but -Infinity the sum is 0: the
  // difference -Infinity - -Infinity is NaN, and no other part of the row may hear of it.
  const pair = (values) => {
    const max = highest(values);
    const sum = max === -Infinity ? 0 : values.reduce((s, x) => s + Math.exp(x - max), 0);
    return { max, sum };
  };
  const rescaled = (part, max) => (part.max === -Infinity && max === part.max ? 0 : part.sum * Math.exp(part.max - max));
  const merged = (a, b) => {
    const max = highest([a.max, b.max]);
    return { max, sum: (a.sum && rescaled(a, max)) + (b.sum && rescaled(b, max)) };
  };
  const blocks = (cols, block) => {
    const found = [];
    for (let first = 0; first < cols; first += block) found.push([first, Math.min(first + block, cols)]);
    return found;
  };
  // Three digits, or all before the point; what is very large or small by its power of ten.
  const shown = (v) => {
    if (!Number.isFinite(v)) return Number.isNaN(v) ? "NaN" : v > 0 ? "∞" : "−∞";
    const size = Math.abs(v) || 1;
    if (size >= 1e5 || size < 1e-3) return v.toExponential(2).replace(/\.?0*e\+?/, "e");
    return String(Number(v.toFixed(Math.max(0, 2 - Math.floor(Math.log10(size))))));
  };
  const entropy = (p) => -p.reduce((h, x) => h + (x > 0 ? x * Math.log2(x) : x === 0 ? 0 : NaN), 0);

  function trace(input, block, algorithm) {
    if (!(algorithm in ALGORITHMS)) throw new RangeError(`unknown algorithm '${algorithm}'; known: ${Object.keys(ALGORITHMS).join(", ")}`);
    if (!Number.isInteger(block) || block < 1) throw new RangeError(`a block has 1 column or more, not ${block}`);
    const cols = input[0].length;
    const state = {
      row: -1, first: 0, last: 0, phase: "start", told: "Nothing has been read yet.", reads: 0, writes: 0,
      max: input.map(() => null), sum: input.map(() => null), out: input.map(() => Array(cols).fill(null)),
      // What the blocks of a split row leave in memory; nobody knows the row's maximum before they are merged.
      pairs: input.map(() => (algorithm === "split" ? blocks(cols, block).map(() => null) : [])),
    };
    const steps = [];
    const note = (change) => {
      Object.assign(state, change);
      steps.push({ ...state, max: [...state.max], sum: [...state.sum], out: state.out.map((r) => [...r]), pairs: state.pairs.map((r) => [...r]) });
    };
    const know = (row, { max, sum }) => {
      state.max[row] = max;
      state.sum[row] = sum;
    };
    const read = (n) => (state.reads += n);
    const write = (row, first, last) => {
      for (let c = first; c < last; c++) state.out[row][c] = Math.exp(input[row][c] - state.max[row]) / state.sum[row];
      state.writes += last - first;
    };
    const over = (row, [first, last], phase, told) => note({ row, first, last, phase, told });

    const kernels = {
      fast(row, x) {
        const all = [0, cols];
        read(cols);
        over(row, all, "load", `Row ${row} is read once and stays in registers.`);
        state.max[row] = highest(x);
        over(row, all, "maximum", "The maximum of what is held: no memory is touched.");
        know(row, pair(x));
        over(row, all, "sum", "Exponentials and their sum: no memory is touched.");
        write(row, 0, cols);
        over(row, all, "output", "Each exponential is divided by the sum and written.");
      },
      three(row, x) {
        state.max[row] = -Infinity;
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          state.max[row] = highest([state.max[row], ...x.slice(...b)]);
          over(row, b, "maximum", "Pass 1: the block is read for the maximum.");
        }
        state.sum[row] = 0;
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          for (const v of x.slice(...b)) state.sum[row] += Math.exp(v - state.max[row]);
          over(row, b, "sum", "Pass 2: the block is read again for the sum.");
        }
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          write(row, ...b);
          over(row, b, "output", "Pass 3: the block is read a third time, divided and written.");
        }
      },
      online(row, x) {
        let known = { max: -Infinity, sum: 0 };
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          const before = known.max;
          know(row, (known = merged(known, pair(x.slice(...b)))));
          const rose = before !== -Infinity && known.max > before;
          over(row, b, "maximum and sum", rose
            ? `The maximum rose: the sum so far is multiplied by exp(${shown(before)} − ${shown(known.max)}).`
            : "The block is read once for both the maximum and the sum.");
        }
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          write(row, ...b);
          over(row, b, "output", "The block is read again, divided and written.");
        }
      },
      pairs(row, x) {
        blocks(cols, block).forEach((b, part) => {
          read(b[1] - b[0]);
          state.pairs[row][part] = pair(x.slice(...b));
          state.writes += 2;
          over(row, b, "pairs", "Launch 1: a block of its own leaves its maximum and sum in memory.");
        });
      },
      merge(row) {
        for (const b of blocks(cols, block)) {
          read(2 * state.pairs[row].length + b[1] - b[0]);
          know(row, state.pairs[row].reduce(merged));
          write(row, ...b);
          over(row, b, "merge and output", "Launch 2: a block reads all pairs, merges them, reads its part again and writes.");
        }
      },
    };

    note({});
    // A launch has gone over all rows before the next begins.
    for (const launch of algorithm === "split" ? ["pairs", "merge"] : [algorithm]) input.forEach((x, row) => kernels[launch](row, x));
    note({ row: -1, phase: "done", told: `Done: ${state.reads} elements read and ${state.writes} written.` });
    return steps;
  }

  const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

  // A number, or -inf.  What Number() takes besides, such as Infinity and 0x10, nobody means here.
  function value(word) {
    const plain = word.replace("−", "-");
    if (/^-inf$/i.test(plain)) return -Infinity;
    if (!NUMBER.test(plain)) throw new RangeError(`'${word}' was typed; expected a number such as 1.5, or -inf, and blanks between numbers`);
    if (!Number.isFinite(Number(plain))) throw new RangeError(`'${word}' was typed, which is too large; expected a finite number, or -inf`);
    return Number(plain);
  }

  // Rows of text: numbers apart by blanks, with or without a comma.  A comma alone might be a decimal one.
  function parse(text, most = { rows: 4, cols: 16 }) {
    const rows = text.split(/\n|;/).map((line) => line.trim()).filter(Boolean)
      .map((line) => line.split(/\s*,?\s+|,$/).filter(Boolean).map(value));
    const typed = (n, word) => `${n} ${word}${n === 1 ? " was" : "s were"} typed`;
    if (!rows.length || rows.length > most.rows) throw new RangeError(`${typed(rows.length, "row")}; expected 1 to ${most.rows}`);
    if (rows.some((r) => r.length !== rows[0].length)) throw new RangeError(`rows of ${rows.map((r) => r.length).join(" and ")} numbers were typed; expected as many in each`);
    const cols = rows[0].length;
    if (cols < 2 || cols > most.cols) throw new RangeError(`${typed(cols, "column")}; expected 2 to ${most.cols}`);
    return rows;
  }

  return { ALGORITHMS, trace, parse, entropy, shown };
})();
