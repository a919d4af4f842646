"""The command lines: equal bytes for equal data, stamps, and one sentence for bad input."""

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from experiments.tables import ACCURACY
from figures import FIGURES, TABLE_FIGURES, page, resources, worklog
from kernels.fingerprint import variant_sha256
from kernels.registry import variant
from tests.experiments.watched import placed_rows
from tests.figures.conftest import resources_of
from tests.workflow.recorded import waits

ROOT = Path(__file__).parents[2]
SUFFIXES = ("svg", "png", "pdf")


def run(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"figures.{script}", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={"PATH": "", **environment}
    )


@pytest.fixture
def table(request: pytest.FixtureRequest, tidy, tmp_path: Path) -> Path:
    path = tmp_path / "tidy.csv"
    tidy(FIGURES[request.param]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("table", "name"), [(f, f) for f in FIGURES], indirect=["table"])
def test_the_same_table_gives_the_same_bytes(table: Path, name: str, hardware: Path, tmp_path):
    stems = [tmp_path / folder / name for folder in ("one", "two")]
    for stem, seed in zip(stems, "12", strict=True):
        done = run(name, table, "--hardware", hardware, "--stem", stem, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"{name}.{suffix}").read_bytes() for stem in stems)
        assert len(first) > 1000
        assert first == second, suffix


def test_resources_gives_the_same_bytes(tmp_path: Path):
    tables = [tmp_path / f"{arch}.csv" for arch in ("sm_80", "sm_90")]
    for path in tables:
        resources_of(path.stem).to_csv(path, index=False)
    stems = [tmp_path / folder / "resources" for folder in ("one", "two")]
    for stem, seed in zip(stems, "12", strict=True):
        done = run("resources", *tables, "--stem", stem, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"resources.{suffix}").read_bytes() for stem in stems)
        assert first == second, suffix


def errors() -> pd.DataFrame:
    rows = [
        {"variant": name, "dtype": dtype, "input": kind, "rows": 2, "cols": 8, "status": status,
         "reason": "", "max_ulps": error, "kernel_sha256": "a" * 64}
        for name in ("torch_eager", "triton_row", "cuda_float4")
        for dtype in ("float32", "bfloat16")
        for kind, status, error in (("normal", "ok", 1.5), ("one-hot", "wrong", 1e6))
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=list(ACCURACY.columns))


@pytest.mark.parametrize(
    ("name", "made"), [("accuracy", errors), ("first_call", waits), ("layouts", placed_rows)]
)
def test_a_table_gives_the_same_bytes(name: str, made, hardware: Path, tmp_path: Path):
    table = tmp_path / "table.csv"
    made().to_csv(table, index=False)
    stems = [tmp_path / folder / name for folder in ("one", "two")]
    for stem, seed in zip(stems, "12", strict=True):
        done = run(name, table, "--hardware", hardware, "--stem", stem, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
    for suffix in SUFFIXES:
        first, second = (stem.with_name(f"{name}.{suffix}").read_bytes() for stem in stems)
        assert first == second, suffix


@pytest.mark.parametrize(("name", "made"), [("accuracy", errors), ("first_call", waits)])
def test_a_table_of_earlier_code_says_whose(name: str, made, hardware: Path, tmp_path: Path):
    table, said = made(), {}
    now = table.assign(kernel_sha256=[variant_sha256(variant(v)) for v in table["variant"]])
    one = now.mask(now["variant"] == "triton_row", table)
    for label, rows in (("now", now), ("one", one)):
        rows.to_csv(tmp_path / "table.csv", index=False)
        stem = tmp_path / label
        done = run(name, tmp_path / "table.csv", "--hardware", hardware, "--stem", stem)
        assert done.returncode == 0, done.stderr
        texts = re.findall("<!-- (.*?) -->", stem.with_suffix(".svg").read_text())
        said[label] = "stale, measured with earlier code: Triton row" in " ".join(texts)
    assert said == {"now": False, "one": True}


@pytest.mark.parametrize("name", TABLE_FIGURES)
def test_a_table_of_something_else_is_one_sentence(name: str, hardware: Path, tmp_path: Path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    stem = tmp_path / name
    done = run(name, tmp_path / "table.csv", "--hardware", hardware, "--stem", stem)
    refused(done, "missing or unknown columns", f"make it with: python -m experiments.{name}")


def test_the_last_bits_of_the_layouts_solver_change_no_byte(
    tidy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    grid, lay_out = worklog.panels(tidy("worklog")), ConstrainedLayoutEngine.execute

    def otherwise(engine: ConstrainedLayoutEngine, figure: Figure) -> None:
        lay_out(engine, figure)
        for ax in figure.axes:
            ax.set_position((np.array(ax.get_position().bounds) + 1e-9).tolist())

    page.save(grid, "a note", tmp_path / "one" / "worklog")
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", otherwise)
    page.save(grid, "a note", tmp_path / "two" / "worklog")
    for suffix in SUFFIXES:
        first, second = (tmp_path / n / f"worklog.{suffix}" for n in ("one", "two"))
        assert first.read_bytes() == second.read_bytes(), suffix


def test_a_missing_font_is_named_and_nothing_is_drawn(
    tidy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for medium in page.MEDIA:
        style = (page.HERE / f"{medium.style}.mplstyle").read_text()
        path = tmp_path / f"{medium.style}.mplstyle"
        path.write_text(re.sub("(?m)^font.family: .*", "font.family: No Such Font", style))
    monkeypatch.setattr(page, "HERE", tmp_path)
    with pytest.raises(page.BadInput, match=r"the font No Such Font, .* blog\.mplstyle"):
        page.save(worklog.panels(tidy("worklog")), "", tmp_path / "worklog")
    assert not list(tmp_path.glob("worklog.*"))


@pytest.mark.parametrize("medium", page.MEDIA, ids=lambda medium: medium.style)
def test_panels_have_their_places_before_a_file_is_written(tidy, medium: page.Medium):
    with matplotlib.style.context([page.HERE / f"{medium.style}.mplstyle"], after_reset=True):
        figure = page.compose(worklog.panels(tidy("worklog")), "a note", medium, "all")
        places = [ax.get_position().bounds for ax in figure.axes]
        for suffix in medium.suffixes:
            figure.savefig(BytesIO(), format=suffix)
        assert [ax.get_position().bounds for ax in figure.axes] == places
        (legend,) = figure.legends
        foot = legend.get_window_extent().y1
        for ax in figure.axes:
            drawn = ax.get_tightbbox()
            assert drawn is not None
            assert drawn.y0 >= foot
            assert 0 <= drawn.x0 < drawn.x1 <= figure.bbox.x1


def test_no_line_of_a_stamp_begins_with_the_dot_between_its_parts():
    note = "NVIDIA H200 · archive · measured 2026-11-28 · full · torch 2.11.0 · triton 3.6.0"
    for most in range(12, len(note) + 1):
        lines = page._lines(note, most)
        assert " ".join(lines) == note
        assert not [line for line in lines if line.startswith("·") or len(line) > most]


@pytest.mark.parametrize(("table", "name"), [("vocab_scaling",) * 2], indirect=["table"])
def test_a_pdf_is_as_wide_as_the_page_and_embeds_truetype(table, name, hardware, tmp_path):
    stem = tmp_path / name
    assert run(name, table, "--hardware", hardware, "--stem", stem).returncode == 0
    pdf = stem.with_suffix(".pdf").read_bytes()
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", pdf)
    assert box is not None
    assert float(box[1]) == pytest.approx(7.0 * 72)
    assert b"CreationDate" not in pdf
    assert b"/TrueType" in pdf or b"/CIDFontType2" in pdf
    assert b"<dc:date>" not in stem.with_suffix(".svg").read_bytes()


def test_stamp_says_where_when_and_how(tidy, hardware: Path):
    table = tidy("vocab_scaling")
    facts = page.read_hardware(hardware)
    fresh = page.stamp(facts, table.assign(stale=False))
    assert fresh.startswith("NVIDIA H200 · archive · measured 2026-11-21 · full · ")
    assert "95% interval of 5 blocks" in fresh
    assert "median and range of 2 blocks" in page.stamp(facts, table.assign(n_blocks=2))
    assert "stale" not in fresh
    assert "stale: measured with earlier code" in page.stamp(facts, table)


def test_stamp_names_the_versions_that_were_measured(tidy, hardware: Path):
    facts = json.loads(hardware.read_text()) | {"packages": {"torch": "2.11.0", "triton": None}}
    note = page.stamp(facts, tidy("vocab_scaling"))
    assert "torch 2.11.0" in note
    assert "triton" not in note


def test_stamp_counts_throttled_points_and_names_a_cpu(tidy, hardware: Path):
    table = tidy("vocab_scaling")
    table.loc[table.index[:3], "throttled_share"] = 0.5
    facts = page.read_hardware(hardware) | {"gpu": None, "cpu": "A CPU", "source": "local-cpu"}
    note = page.stamp(facts, table)
    assert note.startswith("A CPU · local · ")
    assert re.search(r"3 of \d+ points have throttled samples", note)


def without_peers(table: pd.DataFrame) -> pd.DataFrame:
    missing = table["variant"].isin(("liger", "quack"))
    return table.mask(missing, table.assign(status="skipped", timer="none"))


def test_stamp_names_what_did_no_point_and_no_legend_does(tidy, hardware: Path, tmp_path: Path):
    table = without_peers(tidy("vocab_scaling"))
    table.to_csv(tmp_path / "tidy.csv", index=False)
    done = run(
        "vocab_scaling", tmp_path / "tidy.csv", "--hardware", hardware, "--stem", tmp_path / "v"
    )
    assert done.returncode == 0, done.stderr
    assert page.stamp(page.read_hardware(hardware), table).endswith(
        "skipped throughout: Liger, QuACK"
    )
    # The stamp has them, the legend no line.
    drawn = (tmp_path / "v.svg").read_text()
    assert drawn.count("Liger") == 1
    assert "<!-- Liger -->" not in drawn


def test_stamp_names_what_one_dtype_lacks_and_its_panels_have_no_lane(tidy, hardware: Path):
    table = tidy("vocab_scaling")
    lacks = (table["variant"] == "triton_row") & (table["dtype"] != "float32")
    table.loc[lacks, ["status", "reason"]] = ["skipped", "takes float32 only"]
    table = table[table["variant"].isin(["torch_eager", "triton_row"])]
    stamp = page.stamp(page.read_hardware(hardware), table)
    assert stamp.endswith(" · skipped in float16 and bfloat16: Triton row")
    drawn = page.without_skipped_dtypes(table)
    assert len(drawn) == len(table) - lacks.sum()
    assert set(drawn.loc[drawn["variant"] == "triton_row", "dtype"]) == {"float32"}


def test_stamp_speaks_of_what_the_figure_shows(tidy, hardware: Path, tmp_path: Path):
    table = tidy("vocab_scaling").assign(stale=lambda t: t["variant"] == "triton_tiled_1024")
    table.to_csv(tmp_path / "tidy.csv", index=False)
    said = {}
    for name in ("vocab_scaling", "triton_paths"):
        stem = tmp_path / name
        done = run(name, tmp_path / "tidy.csv", "--hardware", hardware, "--stem", stem)
        assert done.returncode == 0, done.stderr
        said[name] = "hollow markers" in stem.with_suffix(".svg").read_text()
    assert said == {"vocab_scaling": False, "triton_paths": True}


def test_a_sweep_kept_of_an_earlier_run_says_so(tidy, hardware: Path, tmp_path: Path):
    tidy("topk").to_csv(tmp_path / "tidy.csv", index=False)
    facts = json.loads(hardware.read_text())
    earlier = {**facts, "measured_utc": "2001-02-03T00:00:00Z", "packages": {"torch": "1.0"}}
    (tmp_path / "hardware.json").write_text(json.dumps({**facts, "earlier": {"topk": earlier}}))
    stem = tmp_path / "topk"
    done = run(
        "topk", tmp_path / "tidy.csv", "--hardware", tmp_path / "hardware.json", "--stem", stem
    )
    assert done.returncode == 0, done.stderr
    said = stem.with_suffix(".svg").read_text()
    assert "measured 2001-02-03" in said
    assert "torch 1.0" in said
    assert facts["measured_utc"][:10] not in said


def test_where_nothing_did_a_point_all_is_shown(tidy):
    table = tidy("vocab_scaling").assign(status="skipped")
    assert page.skipped_dtypes(table) == {}


def refused(done: subprocess.CompletedProcess[str], *said: str) -> None:
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    for text in said:
        assert text in done.stderr


def test_a_missing_table_is_one_sentence(hardware: Path, tmp_path: Path):
    done = run("vocab_scaling", "nowhere.csv", "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "nowhere.csv does not exist", "python -m experiments.tidy")


def test_a_table_that_fails_the_schema_is_one_sentence(hardware: Path, tmp_path: Path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b\n1,2\n")
    done = run("vocab_scaling", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "odd.csv is not a tidy table", "columns: a, b,", "python -m experiments.tidy")


@pytest.mark.parametrize(
    ("column", "value"), [("timer", "sundial"), ("cols", "many"), ("status", None)]
)
def test_a_value_that_fails_the_schema_is_named(column, value, tidy, hardware, tmp_path: Path):
    path = tmp_path / "odd.csv"
    tidy("vocab_scaling").assign(**{column: value}).to_csv(path, index=False)
    done = run("vocab_scaling", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "odd.csv is not a tidy table", f"'{column}'")
    print(done.stderr)


@pytest.mark.parametrize("rows", [0, None])
def test_an_empty_table_is_one_sentence(rows, tidy, hardware: Path, tmp_path: Path):
    path = tmp_path / "empty.csv"
    path.write_text("")
    if rows == 0:
        tidy("vocab_scaling").head(0).to_csv(path, index=False)
    done = run("vocab_scaling", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "empty.csv", "python -m experiments.tidy")


def test_a_table_of_another_sweep_is_one_sentence(tidy, hardware: Path, tmp_path: Path):
    path = tmp_path / "other.csv"
    tidy("small_batch").to_csv(path, index=False)
    done = run("vocab_scaling", path, "--hardware", hardware, "--stem", tmp_path / "x")
    refused(done, "holds the sweep small_batch; expected vocab_scaling")


@pytest.mark.parametrize("text", [None, "{", "[]", json.dumps({"gpu": "NVIDIA H200"})])
def test_bad_hardware_is_one_sentence(text, tidy, tmp_path: Path):
    path, facts = tmp_path / "tidy.csv", tmp_path / "hardware.json"
    tidy("vocab_scaling").to_csv(path, index=False)
    if text is not None:
        facts.write_text(text)
    done = run("vocab_scaling", path, "--hardware", facts, "--stem", tmp_path / "x")
    refused(done, "hardware.json", "experiments.hardware")


def test_resources_draws_one_form_of_a_kernel(tmp_path: Path):
    table = resources_of("sm_90")
    doubled = pd.concat([table, table.assign(registers=200, edges=True)])
    doubled.to_csv(path := tmp_path / "sm_90.csv", index=False)
    assert len(resources.read([path])) == len(table)


def test_bad_resources_are_one_sentence(tmp_path: Path):
    refused(run("resources", "nowhere.csv", "--stem", tmp_path / "x"), "nowhere.csv does not exist")
    path = tmp_path / "odd.csv"
    path.write_text("arch,variant\nsm_90,triton_row\n")
    refused(run("resources", path, "--stem", tmp_path / "x"), "odd.csv lacks the columns cols_held")
    pd.DataFrame(resources_of("sm_90").query("cols_held == 0")).to_csv(path, index=False)
    refused(run("resources", path, "--stem", tmp_path / "x"), "no kernel that keeps columns")


def test_an_output_that_cannot_be_written_is_one_sentence(tidy, hardware: Path, tmp_path: Path):
    path = tmp_path / "tidy.csv"
    tidy("vocab_scaling").to_csv(path, index=False)
    done = run("vocab_scaling", path, "--hardware", hardware, "--stem", path / "below" / "x")
    refused(done, "tidy.csv")
