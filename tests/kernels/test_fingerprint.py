"""A fingerprint changes with the code and with nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels import registry
from kernels.fingerprint import cuda_sources, variant_sha256
from kernels.registry import VARIANTS, Launch, Variant

CUDA = """\
// a: first words.
#include "help.cuh"
#define TWICE(v) ((v) + (v))

template <class T> __global__ void softmax(const T *x, T *out, int cols) {
    for (int j = 0; j < cols; ++j) // every column
        out[j] = help(x[j]) + TWICE("a  // b"[0]);
}
"""
HEADER = "#pragma once\n__device__ inline float help(float v) { return v; }\n"
PYTHON = '''\
"""a: first words."""

import torch

WARPS = 4  # a reason


def softmax(x, out):
    """Row softmax."""
    return torch.softmax(x, dim=-1, out=out)
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "ROOT", tmp_path)
    for folder in ("cuda", "torch"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cuda/help.cuh").write_text(HEADER)
    return tmp_path


def of(root: Path, file: str, code: str, launch: Launch | None = None) -> str:
    (root / file).write_text(code)
    return variant_sha256(Variant("a", file, "-", 1, 1, "nothing", launch=launch))


def cuda(root: Path, code: str = CUDA) -> str:
    return of(root, "cuda/a.cu", code)


def python(root: Path, code: str = PYTHON) -> str:
    return of(root, "torch/a.py", code)


@pytest.mark.parametrize(
    "edited",
    [
        CUDA.replace("first words", "other words"),
        CUDA.replace(" // every column", ""),
        CUDA.replace("// every column", "/* every\n column */"),
        CUDA.replace("    for", "\tfor").replace("; ++j", ";   ++j"),
        CUDA.replace("int cols) {", "int cols)\n{"),
        CUDA.replace("TWICE(v) ((v)", "TWICE(v)   ((v)"),
        CUDA + "\n\n// the end\n",
    ],
)
def test_cuda_comments_and_layout_do_not_count(root: Path, edited: str):
    assert edited != CUDA
    assert cuda(root, edited) == cuda(root)


@pytest.mark.parametrize(
    "edited",
    [
        CUDA.replace("j < cols", "j <= cols"),
        CUDA.replace("int j", "long j"),
        CUDA.replace("+ (v)", "- (v)"),
        CUDA.replace("a  // b", "a  // c"),
        CUDA.replace('#include "help.cuh"\n', ""),
        CUDA.replace("const T *x", "const T *y"),
    ],
)
def test_a_changed_cuda_token_counts(root: Path, edited: str):
    assert edited != CUDA
    assert cuda(root, edited) != cuda(root)


def test_a_changed_header_counts_and_its_comments_do_not(root: Path):
    before = cuda(root)
    (root / "cuda/help.cuh").write_text(HEADER + "// the end\n")
    assert cuda(root) == before
    (root / "cuda/help.cuh").write_text(HEADER.replace("return v", "return -v"))
    assert cuda(root) != before


def test_headers_of_headers_count_once(root: Path):
    (root / "cuda/deep.cuh").write_text('#include "help.cuh"\n')
    (root / "cuda/help.cuh").write_text('#include "deep.cuh"\n' + HEADER)
    cuda(root)
    names = [path.name for path in cuda_sources(root / "cuda/a.cu")]
    assert names == ["a.cu", "help.cuh", "deep.cuh"]


def test_a_changed_launch_policy_counts(root: Path):
    few, many = (of(root, "cuda/a.cu", CUDA, launch=Launch(((1, n),))) for n in (128, 256))
    assert few != many


def test_changed_options_count(root: Path):
    (root / "torch/a.py").write_text(PYTHON)
    none = Variant("a", "torch/a.py", "-", 1, 1, "nothing")
    sets = [(), (("block", 1024),), (("block", 4096),), (("warps", 1024),)]
    told = {variant_sha256(replace(none, options=options)) for options in sets}
    assert len(told) == len(sets)


@pytest.mark.parametrize(
    "edited",
    [
        PYTHON.replace("first words", "other words"),
        PYTHON.replace("Row softmax.", "Softmax of each row."),
        PYTHON.replace("  # a reason", ""),
        PYTHON.replace("(x, dim", "(\n        x, dim"),
    ],
)
def test_python_comments_docstrings_and_layout_do_not_count(root: Path, edited: str):
    assert edited != PYTHON
    assert python(root, edited) == python(root)


def test_a_docstring_where_there_was_none_does_not_count(root: Path):
    assert python(root, PYTHON.replace('    """Row softmax."""\n', "")) == python(root)


@pytest.mark.parametrize(
    "edited", [PYTHON.replace("WARPS = 4", "WARPS = 8"), PYTHON.replace("dim=-1", "dim=0")]
)
def test_a_changed_python_token_counts(root: Path, edited: str):
    assert python(root, edited) != python(root)


def test_no_two_variants_share_one():
    assert len({variant_sha256(v) for v in VARIANTS}) == len(VARIANTS)


def test_the_name_and_the_lesson_are_no_code():
    v = VARIANTS[0]
    assert variant_sha256(replace(v, teaches="else", publication="S9")) == variant_sha256(v)
