"""A fingerprint changes with the code and with nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels import registry
from kernels.fingerprint import cuda_sources, python_sources, variant_sha256
from kernels.frontier.compiler import DEFINES
from kernels.registry import VARIANTS, Launch, Variant, variant

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


def test_what_is_defined_beside_a_kernel_counts_where_its_files_name_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    (root / "cuda/help.cuh").write_text("#ifdef ASIDE\n#endif\n" + HEADER)
    before = cuda(root)
    monkeypatch.setenv(DEFINES, "ELSEWHERE")
    assert cuda(root) == before
    monkeypatch.setenv(DEFINES, "ELSEWHERE ASIDE")
    assert cuda(root) != before
    monkeypatch.setenv(DEFINES, "")
    assert cuda(root) == before


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


def test_the_fingerprint_is_that_of_every_python(root: Path):
    """Python 3.12 writes the quotes inside of an f-string as other versions do not."""
    quoted = PYTHON.replace(
        "import torch",
        """import torch

NAMES = f"<{', '.join(['{{', "}"])!r:>{8}}> isn't"
NUMBERS = f"{1 + 2}"
""",
    )
    made_with_311 = "d412b5237fc3932395b7074344c1cca6e780f300b351c3df05deb7b97543bb68"
    assert python(root, quoted) == made_with_311


@pytest.mark.parametrize(
    "edited",
    [
        ("'{{', ", "'{', "), ("!r", "!s"), (":>{8}", ":>{9}"), (" isn't", " is"), ("1 + 2", "1 + 3")
    ],
)  # fmt: skip
def test_a_changed_f_string_counts(root: Path, edited: tuple[str, str]):
    quoted = PYTHON + """NAMES = f"<{', '.join(['{{', "}"])!r:>{8}}> isn't {1 + 2}"\n"""
    assert python(root, quoted.replace(*edited)) != python(root, quoted)


def test_a_docstring_where_there_was_none_does_not_count(root: Path):
    assert python(root, PYTHON.replace('    """Row softmax."""\n', "")) == python(root)


@pytest.mark.parametrize(
    "edited", [PYTHON.replace("WARPS = 4", "WARPS = 8"), PYTHON.replace("dim=-1", "dim=0")]
)
def test_a_changed_python_token_counts(root: Path, edited: str):
    assert python(root, edited) != python(root)


SHARED = '''\
"""b: first words."""

from kernels.specialise import Specialisation

WARPS = 4


def softmax(x, out):
    return out.fill_(WARPS)


def specialisations():
    yield Specialisation(softmax)
'''
IMPORTS = [
    "from kernels.torch.b import WARPS",
    "from .b import WARPS",
    "from ..torch.b import WARPS as N",
    "from kernels.torch import b",
    "from . import b",
    "import kernels.torch.b",
    "if WARPS:\n    from kernels.torch.b import WARPS",
]


@pytest.mark.parametrize("line", IMPORTS)
def test_what_is_imported_from_another_kernels_file_counts(root: Path, line: str):
    other, code = root / "torch/b.py", PYTHON + line
    other.write_text(SHARED)
    before = python(root, code)
    other.write_text(SHARED.replace("WARPS = 4", "WARPS = 8"))
    assert python(root, code) != before
    # Its words and what the build asks it for count no more than one's own.
    other.write_text(SHARED.replace("first words", "other words").replace("(softmax)", "()"))
    assert python(root, code) == before


@pytest.mark.parametrize(
    "line",
    ["import torch", "from b import WARPS", "from kernels.torch import WARPS",
     "from kernels.specialise import WARPS"],
)  # fmt: skip
def test_what_is_imported_from_elsewhere_is_not_followed(root: Path, line: str):
    for name in ("torch/b.py", "specialise.py", "torch.py", "torch/__init__.py"):
        (root / name).write_text("WARPS = 4\n")
    before = python(root, PYTHON + line)
    for name in ("torch/b.py", "specialise.py", "torch.py", "torch/__init__.py"):
        (root / name).write_text("WARPS = 8\n")
    assert python(root, PYTHON + line) == before


def test_imports_of_imports_count_once(root: Path):
    (root / "triton").mkdir()
    (root / "triton/c.py").write_text("from kernels.torch.a import softmax\n")
    (root / "torch/b.py").write_text("from kernels.triton.c import softmax\nimport kernels.torch.b")
    python(root, "from . import b\nfrom kernels.triton import c\nfrom .b import softmax\n")
    assert [p.name for p in python_sources(root / "torch/a.py")] == ["a.py", "b.py", "c.py"]


def test_an_import_that_does_not_parse_counts_by_its_bytes(root: Path):
    told = set()
    for text in ("WARPS = (", "WARPS = ( # reason"):
        (root / "torch/b.py").write_text(text)
        told.add(python(root, PYTHON + "from .b import WARPS"))
    assert len(told) == 2


def test_a_heuristic_that_two_variants_share_lives_in_one_file():
    row_f64 = variant("triton_row_f64")
    assert [p.name for p in python_sources(row_f64.path)] == ["triton_row_f64.py", "triton_row.py"]


def test_no_two_variants_share_one():
    assert len({variant_sha256(v) for v in VARIANTS}) == len(VARIANTS)


def test_the_name_and_the_lesson_are_no_code():
    v = VARIANTS[0]
    assert variant_sha256(replace(v, teaches="else", publication="S9")) == variant_sha256(v)
