"""Every file says whose it is and under which licence, as reuse.software has it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOLD = ("REUSE.toml", "LICENSES/Apache-2.0.txt", "LICENSES/CC-BY-4.0.txt", "README.md")
THEIRS = "tests/tooling/cff-1.2.0.schema.json"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    # Where it looks for what git ignores: not in a checkout around this one.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = [sys.executable, "-m", "reuse", "--root", str(root), "lint"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_every_file_has_a_holder_and_a_licence():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def few(tmp_path: Path) -> Path:
    for name in (*TOLD, THEIRS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_few_files_alone_are_in_order(few: Path):
    done = lint(few)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("REUSE.toml", "MISSING COPYRIGHT AND LICENSING"),
        ("LICENSES/CC-BY-4.0.txt", "MISSING LICENSES"),
        (THEIRS, "UNUSED LICENSES"),
    ],
)
def test_what_is_missing_is_found(name: str, told: str, few: Path):
    (few / name).unlink()
    done = lint(few)
    assert done.returncode != 0
    assert told in done.stdout


def test_the_licence_is_the_one_at_the_top():
    assert (ROOT / TOLD[1]).read_bytes() == (ROOT / "LICENSE").read_bytes()
