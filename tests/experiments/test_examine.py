"""What stops a variant becomes a reason; a GPU that stops answering stops everything."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import typer

from experiments import accuracy, correctness, examine, prepare
from experiments.correctness import Case
from experiments.examine import GpuLost, Problem, attempt
from experiments.sweeps import Point
from kernels import launch
from kernels.launch import Unavailable

POINT = Point("float32", 2, 4)
ILLEGAL = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with more")
BLAMED = r"^the GPU stopped answering in torch_eager at Point\(.*\), a kind: CUDA error: an "


def failing(error: Exception) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise error

    return fail


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a GPU, on which every variant meets an illegal access."""
    x = torch.zeros(2, 4)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**29, 2**30))
    monkeypatch.setattr(accuracy, "inputs", lambda *_: [("a kind", x)])
    monkeypatch.setattr(correctness, "cases", lambda *_: [Case("a kind", x, x.clone())])
    monkeypatch.setattr(examine, "planted", lambda *_: x)
    for module, name in ((launch, "load"), (launch, "bind"), (examine, "load")):
        monkeypatch.setattr(module, name, lambda name: failing(ILLEGAL))


@pytest.fixture
def lost(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """That GPU, which answers no more."""
    monkeypatch.setattr(torch.cuda, "synchronize", failing(ILLEGAL))


# As FlashInfer's loader reports a source that is not there.
NO_SOURCE = RuntimeError(
    "Ninja build failed. Ninja output:\nninja: Entering directory `/tmp/ops'\nninja: error: "
    "'/opt/x/csrc/cub_topk.cu', needed by '/tmp/ops/topk.o', missing and no known rule to make it\n"
)
REPORTS = pytest.mark.parametrize(
    "report",
    [
        lambda: accuracy.report("torch_eager", "float32", "cuda"),
        lambda: correctness.report("torch_eager", "float32", "cuda", 0),
    ],
    ids=["accuracy", "correctness"],
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("needs the package 'triton'"), "needs the package 'triton'"),
        (ILLEGAL, "RuntimeError: CUDA error: an illegal memory access was encountered"),
        (KeyError(), "KeyError: KeyError"),
        (
            NO_SOURCE,
            "RuntimeError: Ninja build failed. Ninja output: ninja: error: 'cub_topk.cu', needed "
            "by 'topk.o', missing and no known rule to make it",
        ),
        (
            torch.OutOfMemoryError("tried to allocate"),
            "out of device memory: input and output take 0.00 GiB before any intermediate, "
            "0.50 GiB are free",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_stops_a_variant_becomes_a_reason(gpu: None, error: Exception, reason: str):
    assert attempt("torch_eager", POINT, "cuda", failing(error)) == (None, reason)


def test_what_a_variant_refuses_is_not_tried():
    never = failing(AssertionError("tried"))
    assert attempt("cuda_float4", POINT, "cpu", never) == (None, "needs a CUDA GPU")
    assert attempt("torch_eager", POINT, "cpu", lambda: 3) == (3, "")


@REPORTS
def test_a_variant_that_fails_is_a_row_while_the_gpu_answers(gpu: None, report):
    rows = report()
    assert {row["status"] for row in rows} == {"skipped"}
    assert {row["reason"] for row in rows} == {f"RuntimeError: {str(ILLEGAL).splitlines()[0]}"}


@REPORTS
def test_a_lost_gpu_ends_a_report_and_names_the_variant(lost: None, report):
    with pytest.raises(GpuLost, match=BLAMED):
        report()


def test_a_gpu_lost_when_a_result_is_read_is_lost_to_its_variant(
    lost: None, monkeypatch: pytest.MonkeyPatch
):
    # Kernels run on after their launch has returned: what they do is seen later.
    monkeypatch.setattr(launch, "load", lambda name: lambda x, out: out)
    monkeypatch.setattr(accuracy, "ulps", failing(ILLEGAL))
    with pytest.raises(GpuLost, match=BLAMED):
        accuracy.report("torch_eager", "float32", "cuda")


def test_a_lost_gpu_ends_a_blocks_check_with_the_errors_first_line(lost: None):
    with pytest.raises(GpuLost, match=r"^CUDA error: an illegal memory access was encountered$"):
        examine.examine("torch_eager", Problem(POINT, "cuda", 1))


def test_a_cpu_is_never_lost(lost: None):
    outcome = examine.examine("torch_eager", Problem(POINT, "cpu", 1))
    assert outcome.status == "skipped"


class Here(Executor):
    """Runs each task when its result is asked for, and what nobody waits for never."""

    def map(self, fn, *iterables, **_):
        return map(fn, *iterables)

    def submit(self, fn, /, *_, **__):
        return Future()


@pytest.mark.parametrize(
    ("command", "first", "mode"),
    [(accuracy, "torch_eager", {}), (prepare, "liger", {"mode": "quick"})],
    ids=["accuracy", "prepare"],
)
def test_a_lost_gpu_ends_the_command_with_one_sentence(
    command,
    first: str,
    mode: dict[str, str],
    lost: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(command, "pool", lambda device: nullcontext(Here()))
    with pytest.raises(typer.Exit) as ended:
        command.main(tmp_path / "out.csv", device="cuda", **mode)
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"the GPU stopped answering in {first} at ")
    assert shown.endswith("mend the variant, or take it out of kernels/registry.py\n")
    assert not (tmp_path / "out.csv").exists()
