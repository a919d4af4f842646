// A chart of curves with intervals, as SVG: axes, lines, markers, and points that can be found.
"use strict";

const Chart = (() => {
  const SIZE = { height: 420, left: 62, right: 16, top: 12, bottom: 44 };
  const LANE = 9;
  const MARKER = 9;
  const NS = "http://www.w3.org/2000/svg";

  function element(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  }

  // 64, 1k (1024), 1M (1024 x 1024) on axes of shapes, as in the figures; others in full.
  function human(value) {
    for (const [size, unit] of [[2 ** 20, "M"], [2 ** 10, "k"]]) if (value >= size && value % size === 0) return `${value / size}${unit}`;
    return value.toLocaleString("en");
  }

  const scale = (low, high, from, to, log) => {
    const f = log ? Math.log : (v) => v;
    const span = f(high) - f(low) || 1;
    return (v) => from + ((f(v) - f(low)) / span) * (to - from);
  };

  function ticks(low, high, log, base, most = 7) {
    const found = [];
    if (log) {
      const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
      const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
      const step = Math.max(1, Math.ceil((last - first + 1) / most));
      for (let k = first; k <= last; k += step) found.push(base ** k);
      if (found.length > 1 || base === 2) return found;
    }
    const rough = (high - (log ? low : 0)) / Math.min(most, 5) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= rough);
    const from = log ? Math.ceil(low / step) * step : 0;
    return Array.from({ length: 12 }, (_, i) => Number((from + i * step).toPrecision(12))).filter((v) => v <= high && (!log || v > 0));
  }

  // Those of ``values`` that lie ``least`` from one another where ``x`` puts them.
  function apart(values, x, least) {
    const found = [];
    for (const v of [...values].sort((a, b) => a - b)) if (!found.length || x(v) - x(found.at(-1)) >= least) found.push(v);
    return found;
  }

  // A marker around (0, 0), as the figures draw it; hollow says that its row is stale.
  function marker(look, parent, hollow = false, size = MARKER) {
    if (!look.marker) return;
    const { path, filled, join } = look.marker;
    const fill = !filled ? "none" : hollow ? "#fff" : look.colour;
    element("path", { class: "marker", d: path, transform: `scale(${size})`, fill, stroke: look.colour, "stroke-width": 1.4 / size, "stroke-linejoin": join }, parent);
  }

  function key(look, hollow) {
    const svg = element("svg", { viewBox: "0 0 32 16", "aria-hidden": "true" });
    element("line", { x1: 1, x2: 31, y1: 8, y2: 8, stroke: look.colour, "stroke-width": 2, "stroke-dasharray": look.dash.map((d) => d * 2).join(" ") }, svg);
    marker(look, element("g", { transform: "translate(16 8)" }, svg), hollow);
    return svg;
  }

  // series: [{ look, points: [{ x, y, low, high, index, stale }] }]; a point without y stands in a lane.
  // Returns the points as drawn, each with its series, and its place in a picture that is ``width`` wide.
  function draw(svg, series, axes, width) {
    svg.replaceChildren();
    const { height, left, right, top, bottom } = SIZE;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const all = series.flatMap((s) => s.points);
    const placed = all.filter((p) => p.y !== null);
    const lanes = series.filter((s) => s.points.some((p) => p.y === null));
    if (!all.length) {
      element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, svg).textContent = "No row fits these choices.";
      return [];
    }
    const xs = all.map((p) => p.x);
    const ys = placed.flatMap((p) => [p.low ?? p.y, p.high ?? p.y]);
    const wide = [Math.min(...xs), Math.max(...xs)];
    const xDomain = axes.xLog ? [wide[0] / 1.3, wide[1] * 1.3] : [0, wide[1] * 1.03];
    const yDomain = !ys.length ? [0, 1] : axes.yLog ? [Math.min(...ys) / 1.2, Math.max(...ys) * 1.2] : [0, Math.max(...ys) * 1.05];
    const floor = height - bottom - Math.min(lanes.length * LANE, 110);
    const lane = lanes.length ? (height - bottom - floor) / lanes.length : 0;
    const x = scale(...xDomain, left, width - right, axes.xLog);
    const y = scale(...yDomain, floor, top, axes.yLog && ys.length);

    for (const t of ticks(...yDomain, axes.yLog, 10)) {
      element("line", { x1: left, x2: width - right, y1: y(t), y2: y(t), stroke: "#e4e4e4" }, svg);
      element("text", { x: left - 6, y: y(t) + 4, "text-anchor": "end" }, svg).textContent = Number(t.toPrecision(4));
    }
    const most = Math.floor(width / 75);
    const round = ticks(...xDomain, axes.xLog, 2, most);
    // Between two powers of two, and about one, the numbers are those of the points.
    for (const t of round.length > 1 ? round : apart(xs, x, (width - left - right) / most)) {
      element("line", { x1: x(t), x2: x(t), y1: top, y2: height - bottom, stroke: "#eeeeee" }, svg);
      element("text", { x: x(t), y: height - bottom + 16, "text-anchor": "middle" }, svg).textContent = human(t);
    }
    element("path", { d: `M${left},${top}V${height - bottom}H${width - right}`, fill: "none", stroke: "#333" }, svg);
    element("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, svg).textContent = axes.xLabel;
    element("text", { transform: `translate(14 ${(top + floor) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg).textContent = axes.yLabel;

    const drawn = [];
    series.forEach((s, number) => {
      const good = s.points.filter((p) => p.y !== null).sort((a, b) => a.x - b.x);
      const place = (v) => `${x(v[0]).toFixed(1)},${y(v[1]).toFixed(1)}`;
      const banded = good.filter((p) => p.low !== null && p.high !== null);
      if (banded.length > 1) {
        const edge = [...banded.map((p) => [p.x, p.low]), ...banded.reverse().map((p) => [p.x, p.high])];
        element("polygon", { points: edge.map(place).join(" "), fill: s.look.colour, opacity: 0.2 }, svg);
      }
      element("polyline", { points: good.map((p) => place([p.x, p.y])).join(" "), fill: "none", stroke: s.look.colour, "stroke-width": 2, "stroke-dasharray": s.look.dash.map((d) => d * 2).join(" ") }, svg);
      for (const p of s.points) {
        const mine = lanes.indexOf(s);
        const cx = x(p.x);
        const cy = p.y === null ? floor + (mine + 0.5) * lane : y(p.y);
        const g = element("g", { class: "point", transform: `translate(${cx.toFixed(1)} ${cy.toFixed(1)})` }, svg);
        element("circle", { class: "halo", r: 7, fill: "none", "stroke-width": 2 }, g);
        if (p.y === null) element("path", { d: p.wrong ? "M-3,-3L3,3M-3,3L3,-3" : "M0,-4V4", stroke: s.look.colour, "stroke-width": 1.5 }, g);
        else marker(s.look, g, p.stale);
        drawn.push({ ...p, series: number, cx, cy, mark: g });
      }
    });
    return drawn;
  }

  return { draw, key };
})();
