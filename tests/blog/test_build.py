"""The command: equal bytes for equal inputs, and one sentence for what is missing."""

import json
from pathlib import Path

import pandas as pd
import pytest

from experiments.sweeps import SWEEPS
from figures import FIGURES, TABLE_FIGURES
from paper.blog import contents
from paper.blog.build import measured, page
from paper.blog.inputs import BadPage
from tests.blog.source import inputs
from tests.commands import module
from workflow.tables import PROFILE_FIGURES


def test_the_post_shows_what_the_workflow_makes():
    made = {*FIGURES, *TABLE_FIGURES, *PROFILE_FIGURES, "resources", "regimes"}
    shown = contents.figures()
    assert set(shown) <= made
    assert len(shown) == len(set(shown)) > 9
    assert set(contents.SWEEPS) == set(SWEEPS) - {"smoke"}


def test_equal_inputs_give_equal_bytes(source: Path, html: Path, tmp_path: Path):
    out = tmp_path / "again.html"
    done = module(
        "paper.blog.build", "--folder", source, "--build", source, "--out", out,
        "--profile", source / "profile.csv", "--facts", source / "facts.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert out.read_bytes() == html.read_bytes()


def test_a_missing_figure_ends_the_command_in_one_sentence(mine: Path, tmp_path: Path):
    (mine / "figures" / "worklog.svg").unlink()
    out = tmp_path / "no.html"
    done = module(
        "paper.blog.build", "--folder", mine, "--build", mine, "--out", out,
        "--profile", mine / "profile.csv", "--facts", mine / "facts.json",
    )  # fmt: skip
    assert done.returncode == 2
    assert "figure 'worklog' is missing" in done.stdout
    assert str(mine / "figures") in done.stdout
    assert "Traceback" not in done.stdout
    assert not out.exists()


@pytest.mark.parametrize("sweep", [contents.SWEEPS[0], contents.SWEEPS[-1], "cuda_ladder"])
def test_a_missing_table_is_named(mine: Path, sweep: str):
    (mine / "tidy" / f"{sweep}.csv").unlink()
    with pytest.raises(BadPage, match=f"tidy table of '{sweep}'"):
        page(inputs(mine))


@pytest.mark.parametrize("name", ["claims.csv", "profile.csv", "hardware.json", "facts.json"])
def test_a_missing_file_is_named(mine: Path, name: str):
    (mine / name).unlink()
    with pytest.raises(BadPage, match=name):
        page(inputs(mine))


def spoil_fact(path: Path, **change: object) -> None:
    facts = json.loads(path.read_text())
    facts["blog_copy"] = {**facts["blog_copy"], **change} if change else None
    path.write_text(json.dumps({k: v for k, v in facts.items() if v is not None}))


@pytest.mark.parametrize("change", [{}, {"text": ""}, {"text": "nan"}])
def test_a_missing_or_empty_fact_is_named(mine: Path, change: dict[str, object]):
    spoil_fact(mine / "facts.json", **change)
    with pytest.raises(BadPage, match="fact 'blog_copy' is"):
        page(inputs(mine))


def without(path: Path, **where: object) -> None:
    table = pd.read_csv(path)
    keep = ~pd.concat([table[k] == v for k, v in where.items()], axis=1).all(axis=1)
    assert not keep.all()
    table[keep].to_csv(path, index=False)


@pytest.mark.parametrize(
    ("name", "where", "told"),
    [
        ("claims.csv", {"id": "C18"}, "claims.csv has 0 rows with id C18"),
        (
            "profile.csv",
            {"variant": "torch_naive"},
            "variant torch_naive, cols 8192, dtype float32; expected",
        ),
        ("tidy/cuda_ladder.csv", {"variant": "cuda_float4"}, "variant cuda_float4"),
        ("raw/cuda_ladder.csv.gz", {"variant": "cuda_float4"}, "no block with cuda_float4"),
    ],
)
def test_a_missing_row_is_named(mine: Path, name: str, where: dict[str, object], told: str):
    without(mine / name, **where)
    with pytest.raises(BadPage, match=told):
        page(inputs(mine))


def test_a_figure_that_is_none_is_named(mine: Path):
    (mine / "figures" / "worklog.svg").write_text("")
    with pytest.raises(BadPage, match="figure 'worklog' is no SVG"):
        page(inputs(mine))


def test_all_dates_and_cards_of_an_archive_are_told():
    now = {"measured_utc": "2026-11-22T09:13:27Z", "gpu_id": "a"}
    earlier = {"measured_utc": "2026-11-21T19:42:19Z", "gpu_id": "b"}
    assert measured(now) == "measured 2026-11-22 on 1 card"
    both = {**now, "earlier": {"topk": earlier, "worklog": earlier}}
    assert measured(both) == "measured 2026-11-21, 2026-11-22 on 2 cards"


def test_a_stale_fact_bears_a_dagger(source: Path, html: Path):
    text = html.read_text()
    stale = [k for k, f in json.loads((source / "facts.json").read_text()).items() if f["stale"]]
    assert stale
    for name in stale:
        after = text.split(f'data-fact="{name}"')[1].split("</span>")[1]
        assert after.startswith('<a class="stale" href="#stale"')
    assert 'id="stale"' in text


@pytest.mark.parametrize(
    ("text", "low", "high", "interval"),
    [
        ("1,360 µs", 1358.9, 1360.8, "1,359 to 1,361 µs"),
        ("98.7%", 0.9812, 0.99, "98.1 to 99.0%"),
        ("9.98", 9.9, 10.123, "9.90 to 10.12"),
        ("12,288", 12288.0, 12288.0, ""),
        ("5.12", 5.118, 5.121, ""),
        ("132", None, None, ""),
    ],
)
def test_an_interval_is_written_as_its_fact(
    mine: Path, text: str, low: float | None, high: float | None, interval: str
):
    spoil_fact(mine / "facts.json", text=text, low=low, high=high)
    told = page(inputs(mine)).split('data-fact="blog_copy"')[1].split(">")[0]
    assert told == (f' tabindex="0" aria-description="interval: {interval}"' if interval else "")
