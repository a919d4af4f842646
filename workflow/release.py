"""Pack a release: the tracked files of a clean commit, what the archive draws, and metadata.

    python -m workflow.release --out results/release

Writes softmax-roofline-<version>.tar.xz and its .sha256; in it SHA256SUMS lists every other file.
The same commit and results give the same bytes.
"""

import hashlib
import io
import json
import lzma
import subprocess
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
import yaml

from workflow.crate import CRATE, codemeta, crate
from workflow.machine import DEFAULT_ARCHIVE, ROOT

NAME = "softmax-roofline"
RESULTS = f"results/archive-{DEFAULT_ARCHIVE}"
# What a release shows of the results.
SHOWN = (
    *(f"{RESULTS}/{name}" for name in ("figures/*", "claims.*", "goals.*", "tidy/*.csv")),
    *(f"{RESULTS}/{name}" for name in ("limits.md", "paper.pdf", "blog.html")),
    *("results/build/figures/*", "results/build/registers.*", "results/build/*/resources.csv"),
)
# Without these there is nothing to release.
NEEDED = tuple(
    f"{RESULTS}/{name}"
    for name in ("claims.csv", "claims.md", "goals.csv", "goals.md", "paper.pdf", "blog.html")
)
SUMS = "SHA256SUMS"


class NoRelease(RuntimeError):
    """Nothing can be released; the message says why and what to do."""


class Commit(NamedTuple):
    """What is released: its hash, and when it was made in seconds since 1970."""

    sha: str
    seconds: int

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def git(root: Path, *arguments: str) -> str:
    """What git says in ``root``.  Raises NoRelease where it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoRelease(
            f"{root} is no git checkout with a commit: a release is made of one"
        ) from error
    return done.stdout


def clean_commit(root: Path) -> Commit:
    """The commit of ``root``; raises NoRelease where a file is not as that has it."""
    sha, seconds = git(root, "show", "-s", "--format=%H %ct", "HEAD").split()
    if changed := git(root, "status", "--porcelain").splitlines():
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise NoRelease(
            f"the checkout is not clean ({changed[0][3:]}{others}): commit or remove what changed, "
            "so that the release is what its commit says"
        )
    return Commit(sha, int(seconds))


def contents(root: Path) -> dict[str, bytes]:
    """Path to bytes of every tracked file and shown result.  Raises NoRelease."""
    if missing := [name for name in NEEDED if not (root / name).exists()]:
        raise NoRelease(
            f"{missing[0]} is missing: snakemake --cores 1 --config source=archive makes it"
        )
    names = git(root, "ls-files", "-z").split("\0")[:-1]
    made = [path for pattern in SHOWN for path in root.glob(pattern) if path.is_file()]
    paths = {*names, *(path.relative_to(root).as_posix() for path in made)}
    return {name: (root / name).read_bytes() for name in sorted(paths)}


def described(files: Mapping[str, bytes], commit: Commit) -> dict[str, bytes]:
    """``files`` with codemeta.json, ro-crate-metadata.json and SHA256SUMS."""
    citation = yaml.safe_load(files["CITATION.cff"])
    hardware = json.loads(files[f"experiments/archive/{DEFAULT_ARCHIVE}/hardware.json"])
    known = {**files, "codemeta.json": _json(codemeta(citation, commit.sha, commit.date))}
    known[CRATE] = _json(crate(citation, hardware, commit.sha, commit.date, known))
    lines = [f"{hashlib.sha256(known[name]).hexdigest()}  {name}\n" for name in sorted(known)]
    return {**known, SUMS: "".join(lines).encode()}


def _json(what: object) -> bytes:
    return (json.dumps(what, indent=2, ensure_ascii=False) + "\n").encode()


def packed(files: Mapping[str, bytes], folder: str, seconds: int, programs: set[str]) -> bytes:
    """A tar.xz of ``files`` in ``folder``: sorted, of one date, nobody's; ``programs`` may run."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime = len(content), seconds
            entry.mode = 0o755 if name in programs else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(tar.getvalue(), preset=6)


def programs(root: Path) -> set[str]:
    """The tracked files that git keeps as programs."""
    lines = git(root, "ls-files", "-z", "--stage").split("\0")[:-1]
    return {line.split("\t", 1)[1] for line in lines if line.startswith("100755")}


def release(root: Path, out: Path) -> Path:
    """Write the release of ``root`` into the folder ``out``; its path.  Raises NoRelease."""
    commit = clean_commit(root)
    files = described(contents(root), commit)
    folder = f"{NAME}-{yaml.safe_load(files['CITATION.cff'])['version']}"
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{folder}.tar.xz"
    path.write_bytes(packed(files, folder, commit.seconds, programs(root)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
    print(f"{path}: {len(files)} files, {path.stat().st_size:,} bytes, commit {commit.sha}")
    return path


def main(
    out: Annotated[Path, typer.Option(help="folder to write into")] = ROOT / "results/release",
    root: Annotated[Path, typer.Option(help="the checkout")] = ROOT,
    check: Annotated[bool, typer.Option(help="say whether the checkout is clean, no more")] = False,
) -> None:
    """Pack what is committed, what the archive draws, and metadata."""
    try:
        clean_commit(root) if check else release(root, out)
    except NoRelease as error:
        print(error)
        raise typer.Exit(2) from error


if __name__ == "__main__":
    typer.run(main)
