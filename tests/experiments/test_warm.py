"""What is compiled before the first block is what the blocks will run."""

from concurrent.futures import Executor, Future

import pytest

from experiments import warm
from experiments.sweeps import SWEEPS, Point


@pytest.mark.parametrize("mode", ["quick", "full"])
@pytest.mark.parametrize("name", [n for n in SWEEPS if n != "smoke"])
def test_every_point_of_a_sweep_is_warmed_for_what_compiles(name: str, mode: str):
    found, compiling = warm.points(mode), {"torch_compile", "triton_row", "quack"}
    for point in SWEEPS[name].points(mode):
        wanted = compiling & set(SWEEPS[name].variants)
        wanted -= {"triton_row"} if point.cols > 131_072 else set()
        assert wanted <= set(found[point])
        assert not {n for n in found[point] if n.startswith(("cuda_", "copy_", "torch_eager"))}


class Here(Executor):
    """Runs each task at once."""

    def submit(self, fn, /, *args, **kwargs):
        done: Future = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_the_largest_points_come_first_and_each_once(monkeypatch: pytest.MonkeyPatch):
    seen: list[Point] = []
    monkeypatch.setattr(warm, "warm", lambda point, names: seen.append(point))
    said = warm.warm_all(Here(), "quick")
    sizes = [point.rows * point.cols for point in seen]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(seen)) == len(seen) == len(warm.points("quick"))
    assert said == f"compiled for {len(seen)} points"
