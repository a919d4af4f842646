"""House rules: every kernel is registered, bears the header and is measured; files stay small."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from experiments.anonymous import REPORTS, anonymous
from experiments.sweeps import SWEEPS
from kernels.frontier import (
    backward_plans,
    choice_plans,
    columns_plans,
    cross_entropy_plans,
)
from kernels.frontier.plans import REGIMES
from kernels.registry import BY_NAME, FRAMEWORKS, VARIANTS

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "kernels"
# The frontier is one variant of several kernels, chosen by the modules beside them.
PATTERNS = dict.fromkeys(FRAMEWORKS, ("[!_]*.py", "*.cu")) | {"frontier": ("frontier.py", "*.cu")}
KERNEL_FILES = sorted(
    path
    for framework, patterns in PATTERNS.items()
    for pattern in patterns
    for path in (KERNELS / framework).glob(pattern)
)
# Kernels of operators that are no softmax of rows.
OPERATORS = ("triton/triton_attention.py",)
HEADER = ("moves", "launch", "holds", "teaches", "source")
LONGEST = 400
# Written so that this file does not contain what it looks for.
HOME = re.compile(r"/(?:home|Users)/\w|/(?:root)/")


def files() -> list[Path]:
    """What a commit would hold: tracked files, and new ones that git does not ignore."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def header(path: Path) -> str:
    """The comment block or docstring that a kernel file starts with."""
    text = path.read_text()
    pattern = r'"""(.*?)"""' if path.suffix == ".py" else r"((?://.*\n)+)"
    match = re.match(pattern, text, re.DOTALL if path.suffix == ".py" else 0)
    return match[1] if match else ""


def test_every_kernel_file_is_registered():
    registered = {v.path for v in VARIANTS} | {KERNELS / name for name in OPERATORS}
    parts = (
        ("backward", backward_plans.REGIMES),
        ("columns", columns_plans.REGIMES),
        ("cross_entropy", cross_entropy_plans.FILES),
    )
    more = [f"{part}_{name}" for part, names in parts for name in names]
    for names in (REGIMES, more, choice_plans.FILES):
        registered |= {KERNELS / "frontier" / f"{name}.cu" for name in names}
    assert [str(p.relative_to(ROOT)) for p in KERNEL_FILES if p not in registered] == []


def test_every_registered_file_exists():
    assert [v.file for v in VARIANTS if not v.path.is_file()] == []


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda p: p.name)
def test_kernel_file_bears_the_header(path: Path):
    text = header(path)
    assert text.lstrip("/ ").startswith(f"{path.stem}: "), "starts with its name"
    found = re.findall(rf"^(?:// +)?({'|'.join(HEADER)}) +\S", text, re.MULTILINE)
    assert tuple(found) == HEADER


def test_every_variant_is_measured():
    # The smoke sweep times none on a GPU.
    measured = {name for key, sweep in SWEEPS.items() if key != "smoke" for name in sweep.variants}
    assert sorted(set(BY_NAME) - measured) == []


def test_no_file_names_a_home_folder():
    named = []
    for path in files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        named += [f"{path.relative_to(ROOT)}: {m[0]}" for m in HOME.finditer(text)]
    assert named == []


def test_archived_reports_name_no_folder_of_their_machine():
    reports = [p for p in (ROOT / "experiments/archive").rglob("*") if p.suffix in REPORTS]
    assert reports
    assert [p.name for p in reports if anonymous(p.read_text()) != p.read_text()] == []


def test_files_stay_short():
    code = [p for p in files() if p.suffix in {".py", ".cu", ".cuh", ".smk"}]
    long = {str(p.relative_to(ROOT)): n for p in code if (n := p.read_text().count("\n")) > LONGEST}
    assert code
    assert long == {}
