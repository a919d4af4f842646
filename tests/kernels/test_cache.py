"""Compiled code is kept by content: the same is never compiled twice, the changed always is."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import compiled, cuda_compiler, registry, triton_compiler
from kernels.compiled import (
    CACHE,
    Compiled,
    CompileError,
    Job,
    Kernel,
    Resources,
    ptxas_facts,
)
from kernels.cuda_compiler import compile_cuda
from kernels.registry import Launch, Variant, variant
from kernels.triton_compiler import compile_triton

JOB = Job("cuda_block_tree", "float32", "sm_90")
ONLINE = Job("triton_online", "float32", "sm_90")
ROW_F64 = Job("triton_row_f64", "float32", "sm_90")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """This checkout's cache: what a test only looks at may have been compiled before."""
    monkeypatch.setattr(compiled, "CACHE", CACHE)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the kernels' files that a test may edit."""
    shutil.copytree(registry.ROOT, tmp_path / "kernels")
    monkeypatch.setattr(registry, "ROOT", tmp_path / "kernels")
    return tmp_path / "kernels"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that reached a compiler; the compilers are stand-ins."""
    reached: list[Job] = []

    def compile_now(v: Variant, job: Job) -> Compiled:
        reached.append(job)
        row = Resources(job.arch, v.name, v.framework, job.dtype, registers=32)
        return Compiled(b"cubin", (Kernel("symbol", row),))

    monkeypatch.setattr(cuda_compiler, "_compile", compile_now)
    monkeypatch.setattr(triton_compiler, "_compile", compile_now)
    return reached


def test_the_second_compilation_gives_the_first_ones_content(monkeypatch: pytest.MonkeyPatch):
    first = compile_cuda(variant(JOB.variant), JOB)
    monkeypatch.setattr(cuda_compiler, "_compile", None)
    assert compile_cuda(variant(JOB.variant), JOB) == first
    assert first.cubin.startswith(b"\x7fELF")
    assert first.kernels[0].resources.registers


def test_the_same_content_is_compiled_once(calls: list[Job]):
    for _ in range(2):
        compile_cuda(variant(JOB.variant), JOB)
        compile_triton(variant(ONLINE.variant), ONLINE)
    assert calls == [JOB, ONLINE]


@pytest.mark.parametrize("job", [JOB, ONLINE], ids=lambda job: job.variant)
@pytest.mark.parametrize("change", [{"arch": "sm_80"}, {"dtype": "float16"}], ids=str)
def test_another_architecture_or_dtype_is_another_compilation(
    job: Job, change: dict[str, str], calls: list[Job]
):
    build = compile_cuda if job is JOB else compile_triton
    build(variant(job.variant), job)
    build(variant(job.variant), replace(job, **change))
    assert calls == [job, replace(job, **change)]


@pytest.mark.parametrize(
    ("file", "job"),
    [("cuda/cuda_block_tree.cu", JOB), ("cuda/block_tree.cuh", JOB), ("cuda/element.cuh", JOB),
     ("triton/triton_online.py", ONLINE), ("triton/triton_row.py", ROW_F64)],
)  # fmt: skip
def test_a_changed_source_or_header_is_compiled_anew(
    file: str, job: Job, sources: Path, calls: list[Job]
):
    build = compile_cuda if job is JOB else compile_triton  # triton_row_f64 imports from triton_row
    build(variant(job.variant), job)
    path = sources / file
    path.write_text(path.read_text() + ("\n# later\n" if path.suffix == ".py" else "\n// later\n"))
    build(variant(job.variant), job)
    assert calls == [job, job]


def test_a_header_of_another_variant_changes_nothing(sources: Path, calls: list[Job]):
    path = sources / "cuda" / "block_tree.cuh"
    job = replace(JOB, variant="cuda_thread_row")
    compile_cuda(variant(job.variant), job)
    path.write_text(path.read_text() + "\n// later\n")
    compile_cuda(variant(job.variant), job)
    assert calls == [job]


def test_another_launch_policy_is_compiled_anew(calls: list[Job]):
    v = variant(JOB.variant)
    compile_cuda(v, JOB)
    compile_cuda(replace(v, launch=Launch(threads=((1, 128),), shared_bytes_per_thread=4)), JOB)
    assert calls == [JOB, JOB]


def test_a_failure_is_not_kept(
    sources: Path, empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = sources / "cuda" / "cuda_block_tree.cu"
    right = path.read_text()
    path.write_text(right.replace("float peak", "flat peak"))
    with pytest.raises(CompileError, match=r"cuda_block_tree\.cu\(\d+\): error"):
        compile_cuda(variant(JOB.variant), JOB)
    assert not empty_cache.exists() or not list(empty_cache.iterdir())
    path.write_text(right)
    assert compile_cuda(variant(JOB.variant), JOB).kernels[0].resources.status == "ok"


def test_half_a_cache_entry_is_compiled_again(empty_cache: Path, calls: list[Job]):
    compile_cuda(variant(JOB.variant), JOB)
    (cubin,) = empty_cache.glob("*.cubin")
    cubin.unlink()
    compile_cuda(variant(JOB.variant), JOB)
    assert calls == [JOB, JOB]


REPORT = """ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : 16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 22 registers, used 0 barriers
"""


def test_ptxas_report_gives_each_number_its_column_and_kernel():
    assert ptxas_facts(REPORT, "first") == {
        "registers": 40, "spill_bytes": 20, "local_bytes": 16, "static_shared_bytes": 1024,
    }  # fmt: skip
    assert ptxas_facts(REPORT, "second") == {
        "registers": 22, "spill_bytes": 0, "local_bytes": 0, "static_shared_bytes": 0,
    }  # fmt: skip


def test_a_report_without_the_kernel_or_its_registers_is_an_error_that_says_so():
    with pytest.raises(CompileError, match="did not report third"):
        ptxas_facts(REPORT, "third")
    with pytest.raises(CompileError, match=r"did not report .* it said: nothing of use"):
        ptxas_facts("Compiling entry function 'a' nothing of use", "a")


@pytest.mark.usefixtures("kept")
def test_a_file_is_compiled_at_once_for_all_its_tiles():
    made = compile_cuda(variant("cuda_online_row"), replace(JOB, variant="cuda_online_row"))
    rows = [kernel.resources for kernel in made.kernels]
    for edges in (False, True):
        of_form = [row for row in rows if row.edges == edges]
        held = [row.cols_held for row in of_form]
        assert held == [1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]
        assert [row.threads for row in of_form] == [256, 512, *[1024] * 5]
    assert rows[0].specialisation == "softmax threads=256 vectors=1"
    assert rows[1].specialisation == "softmax threads=256 vectors=1 edges"
    assert len({kernel.symbol for kernel in made.kernels}) == 14


@pytest.mark.usefixtures("kept")
def test_exact_functions_are_another_compilation():
    fast, exact = (
        compile_cuda(variant(name), replace(JOB, variant=name))
        for name in ("cuda_block_row", "cuda_block_row_exact")
    )
    assert fast.cubin != exact.cubin
    assert all(
        f.resources.code_bytes < e.resources.code_bytes
        for f, e in zip(fast.kernels, exact.kernels, strict=True)
        if f.resources.code_bytes and e.resources.code_bytes
    )


@pytest.mark.usefixtures("kept")
def test_exp2f_of_a_scaled_argument_is_the_machine_code_of_expf_intrinsic(sources: Path):
    header = sources / "cuda" / "exponential.cuh"
    v, job = variant("cuda_block_row"), replace(JOB, variant="cuda_block_row")
    published, exact = compile_cuda(v, job), compile_cuda(variant("cuda_block_row_exact"), job)
    text = header.read_text()
    assert "return __expf(v);" in text
    header.write_text(text.replace("return __expf(v);", "return exp2f(v * 1.44269504f);"))
    assert compile_cuda(v, job).cubin == published.cubin != exact.cubin
