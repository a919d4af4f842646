"""The figures of the transformer: every run and every batch where its numbers are."""

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from experiments.transformer.curves import TIMES, distances, smoothed
from figures import decoding, page, transformer
from tests.experiments.trained import ROUNDING, STEPS, decoded, trained
from tests.figures.test_page import SUFFIXES, refused, run


def ax_of(panel: page.Panel) -> Axes:
    _, ax = plt.subplots()
    panel.draw(ax, panel.table)
    plt.close()
    return ax


def named(ax: Axes) -> dict[str, list[Line2D]]:
    found: dict[str, list[Line2D]] = {}
    for line in ax.lines:
        found.setdefault(str(line.get_label()), []).append(line)
    return found


def ys(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata())


def test_losses_distances_times_and_memory_are_drawn():
    axes = [ax_of(panel) for (panel,) in transformer.panels(trained())]
    losses, off, steps, memory = map(named, axes)
    found = smoothed(trained())
    assert {label: len(lines) for label, lines in losses.items()} == {
        "torch": 3, "torch, batches turned": 3, "torch.compile": 3, "ours": 3,
    }  # fmt: skip
    for seed, line in enumerate(losses["ours"], start=1):
        assert ys(line) == pytest.approx(found["ours", False, seed])
    # Ours over torch's, which it covers.
    assert [line.get_label() for line in axes[0].lines][-1] == "ours"
    far = distances(found)
    for kind in ROUNDING:
        (line,) = off[transformer.LOOKS[kind][0]]
        assert max(ys(line)) == pytest.approx(100 * far[kind])
    (limit,) = off[f"allowed: {TIMES:g} times torch's own"]
    assert ys(limit)[0] == pytest.approx(100 * TIMES * far["compiled", False])
    (line,) = steps["ours"]
    assert np.asarray(line.get_xdata()).tolist() == list(range(6, STEPS + 1))
    assert set(ys(line)) == {11.2}
    assert {label: set(ys(line)) for label, (line,) in memory.items()} == {
        "torch": {6.0}, "torch.compile": {4.0}, "ours": {3.0},
    }  # fmt: skip


def test_a_run_without_a_gpu_has_no_memory_to_draw():
    table = trained().assign(peak_bytes=float("nan"))
    assert [panel.title for (panel,) in transformer.panels(table)][-1].startswith("time of a step")


@pytest.mark.parametrize(("seeds", "told"), [(1, "1 seed"), (3, "3 seeds")])
def test_every_panel_says_of_how_many_seeds_it_is(seeds: int, told: str):
    drawn = transformer.panels(trained().query("seed <= @seeds"))
    assert len(drawn) == 4
    assert all(panel.title.endswith(f" {told}") for (panel,) in drawn)


@pytest.mark.parametrize(
    ("off", "said"),
    [
        ({("ours", False): 4e-4}, "the curve of ours is the same as torch's"),
        ({("ours", False): 0.02}, "the curve of ours is another than torch's"),
        ({("torch", True): 0.03}, "whether the curve of ours is torch's is open"),
    ],
)
def test_the_verdict_is_in_the_stamp(off: dict[tuple[str, bool], float], said: str):
    words = transformer.words(trained({**ROUNDING, **off}))
    assert words[-1] == said
    assert words[:2] == ["17.9 million parameters, 8,192 tokens a step", "3 seeds"]


def test_every_batch_has_its_mark():
    (panels,) = decoding.panels(decoded())
    assert [panel.title for panel in panels] == list(decoding.TITLES.values())
    for panel, (what, timers) in zip(panels, decoding.TITLES, strict=True):
        ax = ax_of(panel)
        drawn = [c for c in ax.containers if isinstance(c, ErrorbarContainer)]
        assert [c.get_label() for c in drawn] == ["torch", "ours"]
        for marks, name in zip(drawn, ("torch", "ours"), strict=True):
            rows = decoded()
            rows = rows[(rows["operators"] == name) & (rows["what"] == what)]
            rows = rows[rows["timer"].isin(timers)]
            assert np.asarray(marks[0].get_xdata()).tolist() == [1, 4, 16, 64]
            each = 64 if what == "generate" else 1
            assert list(ys(marks[0])) == pytest.approx(list(rows["median_us"] / each))


def test_panels_that_were_not_timed_are_left_out():
    table = decoded().query("what == 'sample' and timer == 'call'")
    assert [p.title for p in decoding.panels(table)[0]] == ["choosing, as a caller waits"]


@pytest.mark.parametrize(
    ("sha256", "told"),
    [("a" * 64, "earlier code"), (None, "code that is not recorded")],
)
@pytest.mark.parametrize(("name", "made"), [("transformer", trained), ("decoding", decoded)])
def test_other_code_is_told(
    name: str, made, sha256: str | None, told: str, hardware: Path, tmp_path: Path
):
    said = f"ours is stale: measured with {told}"
    for table, stale in ((made(), False), (made().assign(kernel_sha256=sha256), True)):
        # What was recorded before there was a fingerprint has no such column.
        table.dropna(axis="columns", how="all").to_csv(tmp_path / "table.csv", index=False)
        stem = tmp_path / name
        done = run(name, tmp_path / "table.csv", "--hardware", hardware, "--stem", stem)
        assert done.returncode == 0, done.stderr
        texts = re.findall("<!-- (.*?) -->", stem.with_suffix(".svg").read_text(), re.DOTALL)
        assert (said in " ".join(" ".join(texts).split())) == stale


@pytest.mark.parametrize(
    ("name", "made", "table"),
    [("transformer", trained, "training.csv"), ("decoding", decoded, "decoding.csv")],
)
def test_the_stamp_is_of_the_run_that_the_table_is_of(
    name: str, made, table: str, hardware: Path, tmp_path: Path
):
    facts = json.loads(hardware.read_text())
    facts["earlier"] = {table: {**facts, "measured_utc": "2026-11-20T01:02:03Z"}}
    hardware.write_text(json.dumps(facts))
    made().to_csv(tmp_path / table, index=False)
    done = run(name, tmp_path / table, "--hardware", hardware, "--stem", tmp_path / name)
    assert done.returncode == 0, done.stderr
    texts = re.findall("<!-- (.*?) -->", (tmp_path / f"{name}.svg").read_text(), re.DOTALL)
    assert re.findall(r"measured ([\d-]{10})", " ".join(texts)) == ["2026-11-20"]


def test_markers_of_other_code_are_hollow():
    for table, face in (
        (decoded(), "#CC79A7"),
        (decoded().assign(kernel_sha256="a" * 64), "white"),
    ):
        (panels,) = decoding.panels(table)
        for panel in panels:
            lines = [c[0] for c in ax_of(panel).containers if isinstance(c, ErrorbarContainer)]
            assert [line.get_markerfacecolor() for line in lines] == ["#000000", face]


@pytest.mark.parametrize(("name", "made"), [("transformer", trained), ("decoding", decoded)])
def test_the_same_table_gives_the_same_bytes(name: str, made, hardware: Path, tmp_path: Path):
    made().to_csv(tmp_path / "table.csv", index=False)
    stems = [tmp_path / folder / name for folder in ("one", "two")]
    for stem, seed in zip(stems, "12", strict=True):
        done = run(
            name, tmp_path / "table.csv", "--hardware", hardware, "--stem", stem,
            PYTHONHASHSEED=seed,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"{name}.{suffix}").read_bytes() for stem in stems)
        assert first == second, suffix


def without_torch() -> pd.DataFrame:
    return trained().query("operators == 'ours'")


@pytest.mark.parametrize("name", ["transformer", "decoding"])
def test_another_table_is_one_sentence(name: str, hardware: Path, tmp_path: Path):
    (path := tmp_path / "table.csv").write_text("a,b\n1,2\n")
    done = run(name, path, "--hardware", hardware, "--stem", tmp_path / name)
    refused(done, "missing or unknown columns", "make it with: snakemake --cores 1 transformer")
    without_torch().to_csv(path, index=False)
    if name == "transformer":
        done = run(name, path, "--hardware", hardware, "--stem", tmp_path / name)
        refused(done, "no run with torch's operators", "make it with: snakemake --cores 1")
