"""What the page computes for its reader: the worked example, the demonstration, inlined figures."""

import io
import re

import matplotlib.style
import numpy as np
import pytest
from matplotlib.figure import Figure

from figures.page import HERE as FIGURES
from paper.blog import animation, demos, example
from paper.blog.svg import inlined


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numbers(texts) -> np.ndarray:
    return np.array([float(t) for t in texts])


@pytest.mark.parametrize("block", [1, 3, 4, 8])
def test_the_example_is_a_softmax_whatever_the_block(block: int):
    want = softmax(np.array(example.MATRIX))
    for row, y in zip(example.rows(block=block), want, strict=True):
        np.testing.assert_allclose(numbers(row.outputs), y, atol=5.1e-4)
        np.testing.assert_allclose(
            numbers(t for b in row.blocks for t in b.outputs), y, atol=5.1e-4
        )
        assert row.output_sum == "1.000"
        assert row.blocks[-1].running_maximum == row.maximum == row.online[-1].running_maximum
        assert abs(float(row.online[-1].running_sum) - float(row.total)) < 1.1e-3


def test_the_examples_maxima_rise_on_the_way():
    assert any(0 < float(step.factor) < 1 for row in example.rows() for step in row.online)


def test_the_sums_are_not_those_that_s1_prints():
    assert [row.total for row in example.rows()] == ["1.864", "1.443", "1.567"]


def test_the_still_of_the_demonstration_overflows_in_one_form_only():
    rows = demos.overflow()
    assert {dtype for dtype, _, plain, _ in rows if "NaN" in plain} == {"float32", "float16"}
    assert not any("NaN" in safe for *_, safe in rows)


def test_the_animations_last_frame_is_right():
    svg = animation.figure()
    for row in softmax(animation.MATRIX):
        assert all(f">{y:.3f}</text>" in svg for y in row)


def drawn() -> str:
    with matplotlib.style.context([FIGURES / "blog.mplstyle", {"svg.hashsalt": "x"}]):
        figure = Figure(figsize=(3, 2))
        ax = figure.subplots()
        ax.plot([1, 2, 3], [0.123456, 2, 1], "o-")
        ax.set_title("four 4")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def test_a_figure_keeps_its_ids_apart_and_its_letters_whole():
    svg, one = drawn(), inlined(drawn(), "one", 'says "so"')
    other = inlined(svg, "other", "so")
    assert len(one) < 0.8 * len(svg)
    assert 'aria-label="says &quot;so&quot;"' in one
    ids = [set(re.findall(r' id="([^"]*)"', text)) for text in (one, other)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])
    for text, mine in zip((one, other), ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= mine
    scales = set(re.findall(r"scale\([^)]*\)", svg))
    assert scales
    assert scales == set(re.findall(r"scale\([^)]*\)", one))


def test_what_is_no_svg_is_refused():
    with pytest.raises(ValueError, match="figure 'x' is no SVG"):
        inlined("<p>no</p>", "x", "so")
