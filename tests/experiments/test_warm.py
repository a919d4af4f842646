"""What is compiled before the first block is what the blocks will run."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from itertools import chain

import pytest
import torch

from experiments import warm
from experiments.sweeps import SWEEPS, Point
from kernels import launch


@pytest.mark.parametrize("mode", ["quick", "full"])
@pytest.mark.parametrize("name", [n for n in SWEEPS if n != "smoke"])
def test_every_point_of_a_sweep_is_warmed_for_what_compiles(name: str, mode: str):
    found, compiling = warm.points(mode), {"torch_compile", "triton_row", "quack"}
    for point in SWEEPS[name].points(mode):
        wanted = compiling & set(SWEEPS[name].variants)
        wanted -= {"triton_row"} if point.cols > 131_072 else set()
        assert wanted <= set(found.get(point, ()))
        assert not {
            n for n in found.get(point, ()) if n.startswith(("cuda_", "copy_", "torch_eager"))
        }


@pytest.mark.parametrize("mode", ["quick", "full"])
def test_what_is_timed_by_the_hosts_clock_compiles_nothing_on_a_gpu(mode: str):
    on_the_host = [s for s in SWEEPS.values() if "host" in s.timers]
    elsewhere = {p for s in SWEEPS.values() if s not in on_the_host for p in s.points(mode)}
    alone = {p for s in on_the_host for p in s.points(mode)} - elsewhere
    assert alone
    assert not alone & set(warm.points(mode))


def test_what_compiles_once_is_built_by_a_call(monkeypatch: pytest.MonkeyPatch):
    called = []

    def fails(x: torch.Tensor, out: torch.Tensor) -> None:
        called.append((x.shape, x.dtype, out.shape))
        raise RuntimeError("no compiler")

    monkeypatch.setattr(launch, "load", dict.fromkeys(warm.ONCE, fails).__getitem__)
    for name in warm.ONCE:
        warm.build(name, "cpu")  # what fails is told by its check
        assert called.pop() == ((1, 1024), torch.float32, (1, 1024))


class Here(Executor):
    """Runs each task at once."""

    def submit(self, fn, /, *args, **kwargs):
        done: Future = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_a_width_is_one_task_but_for_what_compiles_for_each_shape(monkeypatch: pytest.MonkeyPatch):
    seen: list[dict[Point, tuple[str, ...]]] = []

    def one_second(task: dict[Point, tuple[str, ...]]) -> Mapping[str, float]:
        seen.append(task)
        return Counter(chain.from_iterable(task.values()))

    monkeypatch.setattr(warm, "warm", one_second)
    said = warm.warm_all(Here(), "quick")
    names = [set(chain.from_iterable(task.values())) for task in seen]
    alone = [task for task, some in zip(seen, names, strict=True) if some <= set(warm.PER_SHAPE)]
    assert seen[: len(alone)] == alone
    assert all(len(task) == 1 for task in alone)
    cols = [point.cols for task in alone for point in task]
    assert cols == sorted(cols, reverse=True)
    shared = seen[len(alone) :]
    calls = [sum(map(len, task.values())) for task in shared]
    assert calls == sorted(calls, reverse=True)
    widths = [{(point.dtype, point.cols) for point in task} for task in shared]
    assert all(len(width) == 1 for width in widths)
    assert len(set.union(*widths)) == len(shared)
    assert not set(warm.ONCE) & set.union(*names)
    together: dict[Point, set[str]] = {}
    for point, some in chain.from_iterable(task.items() for task in seen):
        assert not together.setdefault(point, set()) & set(some)
        together[point].update(some)
    assert together == {p: set(some) for p, some in warm.points("quick").items()}
    assert said.startswith(f"compiled for {len(warm.points('quick'))} points in 0 s;")
    rows = sum("triton_row" in names for names in warm.points("quick").values())
    assert f"triton_row {rows} s" in said
