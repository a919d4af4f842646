"""Nothing is timed while a host is busy, unless it is busy for good."""

from collections.abc import Iterator

import pytest

from experiments import quiet
from experiments.quiet import LEARNING, PATIENCE_S, PAUSE_S, QuietHost


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(quiet.time, "sleep", pauses.append)
    return pauses


def loops(monkeypatch: pytest.MonkeyPatch, *then: int) -> None:
    """Loops that take 100 ns while a host learns, and then as they are given, the last for good."""

    def each() -> Iterator[int]:
        yield from [130] * (LEARNING - 1)
        yield 100
        yield from then
        while True:
            yield then[-1]

    taken = each()
    monkeypatch.setattr(quiet, "loop_ns", lambda: next(taken))


def test_a_quiet_host_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, slept: list[float]):
    loops(monkeypatch, 100, 114, 96, 110)
    host = QuietHost()
    for _ in range(4):
        host.wait()
    assert not slept
    assert (host.waited_s, host.missed) == (0.0, 0)


def test_a_burst_is_waited_out(monkeypatch: pytest.MonkeyPatch, slept: list[float]):
    loops(monkeypatch, 160, 150, 116, 105)
    host = QuietHost()
    host.wait()
    assert slept == [PAUSE_S] * 3
    assert host.waited_s == pytest.approx(3 * PAUSE_S)
    assert host.missed == 0


def test_the_fastest_loop_is_what_others_are_measured_by(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
):
    loops(monkeypatch, 80, 100, 90)
    host = QuietHost()
    host.wait()
    assert not slept
    host.wait()
    assert len(slept) == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch, slept: list[float]):
    loops(monkeypatch, 200)
    host = QuietHost()
    host.wait()
    assert sum(slept) == pytest.approx(PATIENCE_S, rel=1e-3)
    many = len(slept)
    host.wait()
    assert len(slept) == many
    assert host.missed == 2
