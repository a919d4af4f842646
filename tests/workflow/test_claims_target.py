"""`snakemake claims`: verdicts of an archive, whatever sweeps it holds, and beside a local run."""

import shutil
from pathlib import Path

import pytest

from experiments.claim import read_claims
from experiments.claims import read_verdicts
from experiments.own import PUBLICATION
from experiments.tables import read_raw, write_raw
from experiments.tidy import tidy
from tests.workflow.checkout import snakemake
from tests.workflow.recorded import GPU, SOURCE, forget
from workflow import source
from workflow.artifact import own
from workflow.tables import archived, archived_sweep, counted, tables_of

CONFIG = ["--config", f"source={SOURCE}"]
SWEEPS = ("vocab_scaling", "batch_scaling")


def test_the_verdicts_are_made_and_printed(made: Path):
    done = snakemake(made, "claims", *CONFIG)
    assert done.returncode == 0, done.stdout
    table = read_verdicts(made / "results" / SOURCE / "claims.csv")
    published = table["publication"] != PUBLICATION
    assert table.loc[published, "id"].tolist() == [claim.id for claim in read_claims()]
    assert table.loc[~published, "id"].tolist() == [*own()]
    assert not (table.loc[published, "verdict"] == "stale").any()
    assert "supported" in set(table["verdict"])
    assert (made / "results" / SOURCE / "claims.md").read_text() in done.stdout

    slower(made)
    local = "results/local-test-gpu"
    beside = snakemake(
        made, f"{local}/claims.md", *CONFIG, "--allowed-rules", "verdicts", "outcomes"
    )
    assert beside.returncode == 0, beside.stdout
    lost = read_verdicts(made / local / "claims.csv")
    assert lost["archived"].tolist() == table["verdict"].tolist()
    ids = lost.loc[(lost["archived"] == "supported") & (lost["verdict"] == "refuted"), "id"]
    sentence = f"supported by the archive and refuted here, on the same GPU: {', '.join(ids)}\n"
    assert len(ids)
    assert (made / local / "claims.md").read_text().endswith(sentence)

    without(made, "topk")
    younger = snakemake(made, "claims", *CONFIG)
    assert younger.returncode == 0, younger.stdout
    left = read_verdicts(made / "results" / SOURCE / "claims.csv")
    gone = left["measured"].str.endswith("topk") & (left["publication"] != PUBLICATION)
    assert gone.any()
    assert set(left.loc[gone, "reason"]) == {"topk was not measured"}
    same = ["id", "value", "verdict"]
    assert left.loc[~gone, same].equals(table.loc[~gone, same])


def slower(root: Path) -> None:
    """What a run on this GPU would have left, had a kernel become ten times as slow."""
    made, local = root / "results" / SOURCE, root / "results" / f"local-{GPU}"
    shutil.copytree(made / "raw", local / "raw")
    shutil.copytree(made / "tidy", local / "tidy")
    shutil.copy(made / "hardware.json", local)
    raw = read_raw(local / "raw" / "vocab_scaling.csv.gz")
    raw.loc[raw["variant"] == "triton_constant", "time_ns"] *= 10
    write_raw(raw, local / "raw" / "vocab_scaling.csv.gz")
    tidy(raw).to_csv(local / "tidy" / "vocab_scaling.csv", index=False)


def without(root: Path, sweep: str) -> None:
    """As if the archive, and what was made of it, were older than ``sweep``."""
    forget(root, f"raw/{sweep}.csv.gz")
    (root / "results" / SOURCE / "raw" / f"{sweep}.csv.gz").unlink()


def test_a_local_run_is_laid_beside_the_archive(copy: Path):
    done = snakemake(copy, "--dry-run", "results/local-test-gpu/claims.md", *CONFIG)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("rule verdicts:") == 2
    assert f"results/{SOURCE}/claims.csv" in done.stdout


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Archives of three GPUs; an A100's holds one of the two sweeps, an H100's none."""
    monkeypatch.setattr(source, "ARCHIVES", tmp_path)
    for gpu, sweeps in (("nvidia-h200", SWEEPS), ("nvidia-a100", SWEEPS[:1]), ("nvidia-h100", ())):
        (tmp_path / gpu).mkdir()
        files = ("hardware.json", *(f"raw/{name}.csv.gz" for name in sweeps))
        lines = (f"{'0' * 64}  {name}\n" for name in files)
        (tmp_path / gpu / "SHA256SUMS").write_text("".join(lines))
    return tmp_path


def test_counts_are_those_of_an_archive_that_holds_them_and_of_a_run_that_made_them(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with (archives / "nvidia-h200" / "SHA256SUMS").open("a") as listing:
        listing.write(f"{'0' * 64}  profile.csv\n")
    made = Path("results/local-nvidia-a100")
    made.mkdir(parents=True)
    assert counted("archive-nvidia-h200") == ["results/archive-nvidia-h200/profile.csv"]
    assert counted("archive-nvidia-a100") == []
    assert counted(made.name) == []
    (made / "profile.csv").touch()
    assert counted(made.name) == ["results/local-nvidia-a100/profile.csv"]


@pytest.mark.usefixtures("archives")
def test_an_archive_has_what_it_holds_and_a_run_everything():
    assert tables_of("archive-nvidia-a100", SWEEPS) == {
        "raw": ["results/archive-nvidia-a100/raw/vocab_scaling.csv.gz"],
        "tidy": ["results/archive-nvidia-a100/tidy/vocab_scaling.csv"],
    }
    assert tables_of("local-nvidia-a100", SWEEPS)["tidy"] == [
        "results/local-nvidia-a100/tidy/vocab_scaling.csv",
        "results/local-nvidia-a100/tidy/batch_scaling.csv",
    ]


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("local-nvidia-a100-quick", ["results/archive-nvidia-a100/claims.csv"]),
        ("local-nvidia-b200", ["results/archive-nvidia-h200/claims.csv"]),
        ("local-nvidia-h100", ["results/archive-nvidia-h200/claims.csv"]),
        ("archive-nvidia-a100", []),
    ],
)
@pytest.mark.usefixtures("archives")
def test_which_archive_lies_beside(name: str, beside: list[str]):
    assert archived(name, "claims.csv") == beside


@pytest.mark.usefixtures("archives")
def test_a_figure_shows_what_the_nearest_archive_holds():
    assert archived_sweep("local-nvidia-a100", "vocab_scaling") == [
        "results/archive-nvidia-a100/tidy/vocab_scaling.csv",
        "results/archive-nvidia-a100/hardware.json",
    ]
    assert archived_sweep("local-nvidia-a100", "batch_scaling") == [
        "results/archive-nvidia-h200/tidy/batch_scaling.csv",
        "results/archive-nvidia-h200/hardware.json",
    ]
    assert archived_sweep("local-nvidia-h200", "numerics") == []
    assert archived_sweep("archive-nvidia-a100", "vocab_scaling") == []
    assert archived_sweep("local-cpu", "smoke") == []


def test_without_an_archive_none_does(archives: Path):
    for listing in archives.glob("*/SHA256SUMS"):
        listing.unlink()
    assert archived("local-nvidia-a100", "claims.csv") == []
    assert archived_sweep("local-nvidia-a100", "vocab_scaling") == []
