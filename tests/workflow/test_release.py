"""`make release`: a clean commit and its results, packed to the same bytes every time."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import ROOT, module
from workflow.crate import CRATE
from workflow.release import NEEDED, RESULTS, SUMS, NoRelease, clean_commit, contents, release

HARDWARE = "experiments/archive/nvidia-h200/hardware.json"


def git(root: Path, *arguments: str) -> None:
    named = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    subprocess.run(["git", "-C", str(root), *named, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit of a few of this project's files, with results that git ignores."""
    root = tmp_path / "checkout"
    for name in ("CITATION.cff", "workflow/Snakefile", HARDWARE, ".gitignore", ".ci/run"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / ".ci/run").chmod(0o755)
    for name in (*NEEDED, f"{RESULTS}/figures/a b.svg", f"{RESULTS}/report.html"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def unpacked(path: Path, folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["tar", "-xJf", path, "-C", folder], check=True)
    return folder / path.name.removesuffix(".tar.xz")


def test_the_sums_hold_and_list_every_file(checkout: Path, tmp_path: Path):
    path = release(checkout, tmp_path / "out")
    root = unpacked(path, tmp_path / "unpacked")
    lines = (line.split("  ", 1) for line in (root / SUMS).read_text().splitlines())
    listed = {name: digest for digest, name in lines}
    found = {str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()}
    assert found.keys() - listed.keys() == {SUMS}
    assert listed == {name: hashlib.sha256(found[name].read_bytes()).hexdigest() for name in listed}
    assert f"{RESULTS}/figures/a b.svg" in listed
    assert f"{RESULTS}/report.html" not in listed
    assert os.access(found[".ci/run"], os.X_OK)
    assert not os.access(found["CITATION.cff"], os.X_OK)
    digest = path.with_name(f"{path.name}.sha256").read_text().split()
    assert digest == [hashlib.sha256(path.read_bytes()).hexdigest(), path.name]


def test_the_same_commit_and_results_give_the_same_bytes(checkout: Path, tmp_path: Path):
    first = release(checkout, tmp_path / "first").read_bytes()
    for name in ("CITATION.cff", NEEDED[0]):
        os.utime(checkout / name, (1, 1))
        (checkout / name).chmod(0o600)
    assert release(checkout, tmp_path / "second").read_bytes() == first
    (checkout / NEEDED[0]).write_text("another verdict\n")
    assert release(checkout, tmp_path / "third").read_bytes() != first


def test_the_metadata_describe_the_files_and_nothing_else(checkout: Path, tmp_path: Path):
    root = unpacked(release(checkout, tmp_path / "out"), tmp_path / "unpacked")
    graph = {e["@id"]: e for e in json.loads((root / CRATE).read_text())["@graph"]}
    parts = [part["@id"] for part in graph["./"]["hasPart"]]
    described = {name.replace("%20", " ") for name in parts}
    files = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
    assert described == files - {SUMS, CRATE}
    for name in parts:
        content = (root / name.replace("%20", " ")).read_bytes()
        assert graph[name]["sha256"] == hashlib.sha256(content).hexdigest()
    assert graph["#gpu"]["name"] == json.loads((ROOT / HARDWARE).read_text())["gpu"]
    assert referred(list(graph.values())) - graph.keys() <= {
        "https://w3id.org/ro/crate/1.1", "https://snakemake.readthedocs.io"
    }  # fmt: skip
    meta = json.loads((root / "codemeta.json").read_text())
    assert meta["identifier"] == graph["./"]["identifier"] == clean_commit(checkout).sha
    assert graph["./"]["datePublished"].startswith(meta["datePublished"])


def referred(what: object) -> set[str]:
    """Every @id in ``what``."""
    if isinstance(what, list):
        return set().union(*map(referred, what))
    if isinstance(what, dict):
        own = {what["@id"]} if "@id" in what else set()
        return own.union(*map(referred, what.values()))
    return set()


@pytest.mark.parametrize("name", ["CITATION.cff", "a new file"])
def test_a_dirty_tree_is_refused_in_a_sentence(name: str, checkout: Path, tmp_path: Path):
    with (checkout / name).open("a") as file:
        file.write("\n")
    for wish in ((), ("--check",)):
        done = module("workflow.release", "--root", checkout, "--out", tmp_path / "out", *wish)
        assert done.returncode == 2
        assert f"the checkout is not clean ({name}): commit or remove" in done.stdout.replace(
            '"', ""
        )
        assert len(done.stdout.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_clean_tree_is_said_to_be_so(checkout: Path):
    assert module("workflow.release", "--root", checkout, "--check").returncode == 0


def test_what_is_not_made_yet_is_named(checkout: Path):
    (checkout / NEEDED[1]).unlink()
    with pytest.raises(NoRelease, match=r"claims\.md is missing: snakemake --cores 1 --config"):
        contents(checkout)


def test_outside_of_git_there_is_no_release(tmp_path: Path):
    with pytest.raises(NoRelease, match="is no git checkout with a commit"):
        clean_commit(tmp_path)
