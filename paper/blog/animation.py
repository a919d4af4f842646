"""S1's animation as a small looping figure: a tensor of 2 x 8 in blocks of 2, three passes.

SVG and CSS alone: one keyframe rule a step, no script.  Where the reader asks for less motion, the
last frame stands still.
"""

import numpy as np

BLOCK = 2
MATRIX = np.array(
    ((1.0, 3.0, -1.0, 2.0, 0.5, -2.0, 1.5, 0.0), (-0.5, 0.0, 2.5, -1.0, 1.0, 2.0, -3.0, 0.5))
)
PHASES = ("maximum", "sum", "output")
SECONDS = 1.1  # a step
HOLD = 3  # steps for which the last frame stays
CELL, LEFT, TOP, GAP = 46, 8, 42, 74


def figure() -> str:
    """The figure, its caption, and a box that stops it."""
    rows, cols = MATRIX.shape
    width, height = LEFT + cols * CELL + 118, TOP + rows * GAP + 10
    steps = [(phase, start) for phase in PHASES for start in range(0, cols, BLOCK)]
    total = len(steps) + HOLD
    body = [_row(r) for r in range(rows)]
    for i, (phase, start) in enumerate(steps):
        body.append(_frame(i, phase, start))
    # The outputs come one block after the other and stay, and so does the last frame.
    first = len(steps) - cols // BLOCK
    ends = [i + 1 for i in range(len(steps) - 1)] + [total]
    rules = [_shown(f"f{i}", i, end, total) for i, end in enumerate(ends)]
    rules += [_shown(f"o{b}", first + b, total, total) for b in range(cols // BLOCK)]
    body += [_outputs(b) for b in range(cols // BLOCK)]
    still = f"#loop .f{len(steps) - 1},#loop .o{{opacity:1}}"
    style = (
        f"#loop .step{{opacity:0;animation:{total * SECONDS:.1f}s step-end infinite}}"
        + "".join(rules)
        + "#loop-stop:checked~div .step{animation-play-state:paused}"
        + f"@media (prefers-reduced-motion:reduce){{#loop .step{{animation-name:none}}{still}}}"
    )
    alt = (
        "Three passes over two rows of eight numbers in blocks of two: the first finds the "
        "maximum, the second sums exponentials, the third writes the output."
    )
    return (
        f'<figure id="loop"><style>{style}</style><input type="checkbox" id="loop-stop">'
        '<label for="loop-stop">Stop the loop</label><div class="scroll" tabindex="0" role="group"'
        f' aria-label="Animation"><svg role="img" aria-label="{alt}" viewBox="0 0 {width} {height}"'
        f' style="--width:{width}px" class="plot">{"".join(body)}</svg></div><figcaption>Two'
        " rows of eight in blocks of two: a program a row, three passes over the blocks, both"
        " programs side by side.</figcaption></figure>"
    )


def _shown(name: str, start: int, stop: int, total: int) -> str:
    """A rule that shows the class ``name`` from step ``start`` to ``stop``."""
    a, b = 100 * start / total, 100 * stop / total
    off = f"{b:.3f}%{{opacity:0}}" if stop < total else ""
    zero = "0%{opacity:0}" if start else ""
    return (
        f"@keyframes loop-{name}{{{zero}{a:.3f}%{{opacity:1}}{off}}}"
        f"#loop .{name}{{animation-name:loop-{name}}}"
    )


def _row(r: int) -> str:
    """A row's inputs, and empty cells for its outputs."""
    y = TOP + r * GAP
    parts = []
    for c, value in enumerate(MATRIX[r]):
        x = LEFT + c * CELL
        parts.append(f'<rect class="cell" x="{x}" y="{y}" width="{CELL - 3}" height="26" rx="3"/>')
        parts.append(_text(x + CELL / 2 - 1.5, y + 18, f"{value:.1f}"))
        parts.append(
            f'<rect class="cell" x="{x}" y="{y + 30}" width="{CELL - 3}" height="26" rx="3"/>'
        )
    return "".join(parts)


def _frame(i: int, phase: str, start: int) -> str:
    """Step ``i``: the block that is read, and what each row knows after it."""
    stop = start + BLOCK
    parts = [f'<g class="step f f{i}">', _text(LEFT, 24, _told(phase, start), "start bold")]
    for r, x in enumerate(MATRIX):
        y = TOP + r * GAP
        high = x[:stop].max() if phase == "maximum" else x.max()
        end = stop if phase == "sum" else len(x)
        total = 0.0 if phase == "maximum" else np.exp(x[:end] - high).sum()
        parts.append(
            f'<rect class="now" x="{LEFT + start * CELL - 2}" y="{y - 2}"'
            f' width="{BLOCK * CELL + 1}" height="30" rx="4"/>'
        )
        edge = LEFT + len(x) * CELL + 8
        parts.append(_text(edge, y + 18, f"max {high:.1f}", "start"))
        parts.append(_text(edge, y + 48, f"sum {total:.3f}" if total else "sum –", "start"))
    return "".join(parts) + "</g>"


def _told(phase: str, start: int) -> str:
    number = PHASES.index(phase) + 1
    return f"pass {number}: {phase}, columns {start} to {start + BLOCK - 1}"


def _outputs(b: int) -> str:
    """The outputs of block ``b`` of both rows."""
    parts = [f'<g class="step o o{b}">']
    for r, x in enumerate(MATRIX):
        y = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
        for c in range(b * BLOCK, (b + 1) * BLOCK):
            left, top = LEFT + c * CELL, TOP + r * GAP + 30
            parts.append(
                f'<rect class="done" x="{left}" y="{top}" width="{CELL - 3}" height="26" rx="3"/>'
                + _text(left + CELL / 2 - 1.5, top + 18, f"{y[c]:.3f}")
            )
    return "".join(parts) + "</g>"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{text}</text>'
