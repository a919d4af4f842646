"""Compiled code is kept by content: the same is never compiled twice, the changed always is."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import compiled, cuda_compiler, registry, triton_compiler
from kernels.compiled import Compiled, CompileError, Job, Resources, ptxas_facts
from kernels.cuda_compiler import compile_cuda
from kernels.registry import Launch, Variant, variant
from kernels.triton_compiler import compile_triton

JOB = Job("cuda_block_tree", "float32", "sm_90")
ONLINE = Job("triton_online", "float32", "sm_90")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


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
        return Compiled(b"cubin", "symbol", row)

    monkeypatch.setattr(cuda_compiler, "_compile", compile_now)
    monkeypatch.setattr(triton_compiler, "_compile", compile_now)
    return reached


def test_the_second_compilation_gives_the_first_ones_content(monkeypatch: pytest.MonkeyPatch):
    first = compile_cuda(variant(JOB.variant), JOB)
    monkeypatch.setattr(cuda_compiler, "_compile", None)
    assert compile_cuda(variant(JOB.variant), JOB) == first
    assert first.cubin.startswith(b"\x7fELF")
    assert first.resources.registers


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
     ("triton/triton_online.py", ONLINE)],
)  # fmt: skip
def test_a_changed_source_or_header_is_compiled_anew(
    file: str, job: Job, sources: Path, calls: list[Job]
):
    build = compile_cuda if job is JOB else compile_triton
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
    assert compile_cuda(variant(JOB.variant), JOB).resources.status == "ok"


def test_half_a_cache_entry_is_compiled_again(empty_cache: Path, calls: list[Job]):
    compile_cuda(variant(JOB.variant), JOB)
    (cubin,) = empty_cache.glob("*.cubin")
    cubin.unlink()
    compile_cuda(variant(JOB.variant), JOB)
    assert calls == [JOB, JOB]


def test_ptxas_report_gives_each_number_its_column():
    log = (
        "ptxas info: 16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info: Used 40 registers, used 1 barriers, 1024 bytes smem\n"
    )
    assert ptxas_facts(log) == {
        "registers": 40, "spill_bytes": 20, "local_bytes": 16, "static_shared_bytes": 1024,
    }  # fmt: skip


def test_a_report_without_registers_is_an_error_that_quotes_it():
    with pytest.raises(CompileError, match=r"did not report .* it said: nothing of use"):
        ptxas_facts("nothing of use")
