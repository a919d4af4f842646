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
  const entropy = (p) => -p.reduce((h, x) => h + (x > 0 ? x * Math.log2(x) : x === 0 ? 0 : NaN), 0);

  function trace(input, block, algorithm) {
    if (!(algorithm in ALGORITHMS)) throw new RangeError(`unknown algorithm '${algorithm}'; known: ${Object.keys(ALGORITHMS).join(", ")}`);
    if (!Number.isInteger(block) || block < 1) throw new RangeError(`a block has 1 column or more, not ${block}`);
    const cols = input[0].length;
    const state = {
      row: -1, first: 0, last: 0, phase: "start", told: "Nothing has been read yet.", reads: 0, writes: 0,
      max: input.map(() => null), sum: input.map(() => null), out: input.map(() => Array(cols).fill(null)),
    };
    const steps = [];
    const note = (change) => {
      Object.assign(state, change);
      steps.push({ ...state, max: [...state.max], sum: [...state.sum], out: state.out.map((r) => [...r]) });
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
            ? `The maximum rose: the sum so far is multiplied by exp(${before} − ${known.max}).`
            : "The block is read once for both the maximum and the sum.");
        }
        for (const b of blocks(cols, block)) {
          read(b[1] - b[0]);
          write(row, ...b);
          over(row, b, "output", "The block is read again, divided and written.");
        }
      },
      split(row, x) {
        const parts = blocks(cols, block);
        const pairs = parts.map((b) => {
          const mine = pair(x.slice(...b));
          read(b[1] - b[0]);
          state.writes += 2;
          know(row, mine);
          over(row, b, "pairs", "Launch 1: a block of its own leaves its maximum and sum in memory.");
          return mine;
        });
        for (const b of parts) {
          read(2 * pairs.length + b[1] - b[0]);
          know(row, pairs.reduce(merged));
          write(row, ...b);
          over(row, b, "merge and output", "Launch 2: a block reads all pairs, merges them, reads its part again and writes.");
        }
      },
    };

    note({});
    input.forEach((x, row) => kernels[algorithm](row, x));
    note({ row: -1, phase: "done", told: `Done: ${state.reads} elements read and ${state.writes} written.` });
    return steps;
  }

  // A row of text: numbers apart by blanks or commas, -inf among them.
  function parse(text, most = { rows: 4, cols: 16 }) {
    const rows = text.split(/\n|;/).map((line) => line.trim()).filter(Boolean).map((line) =>
      line.split(/[\s,]+/).filter(Boolean).map((word) => {
        const value = /^[-−]inf(inity)?$/i.test(word) ? -Infinity : Number(word.replace("−", "-"));
        if (Number.isNaN(value)) throw new RangeError(`'${word}' is no number; write 1.5 or -inf`);
        return value;
      }));
    if (!rows.length || rows.length > most.rows) throw new RangeError(`${rows.length} rows; expected 1 to ${most.rows}`);
    const cols = rows[0].length;
    if (cols < 2 || cols > most.cols) throw new RangeError(`${cols} columns; expected 2 to ${most.cols}`);
    if (rows.some((r) => r.length !== cols)) throw new RangeError(`rows of ${rows.map((r) => r.length).join(" and ")} columns; expected as many in each`);
    return rows;
  }

  return { ALGORITHMS, trace, parse, entropy, highest };
})();
