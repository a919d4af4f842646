"""One block of a sweep: a fresh process, all variants interleaved.

First every variant is compiled, run and checked at every point; then everything is timed, the
points and the variants of each round in a random order that the seed and the block fix.
"""

import json
import logging
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.progress import track

from experiments import timer
from experiments.check import planted
from experiments.examine import (
    GpuLost,
    Outcome,
    Problem,
    examine,
    memory_reason,
    raise_if_lost,
)
from experiments.hardware import collect, commit, environment_sha256
from experiments.nvml import Reading, Sampler
from experiments.sweeps import Point, Sweep, sweep
from experiments.sweeps.sweep import AGAIN
from experiments.tables import RAW, SCHEMA_VERSION, validated, write_raw
from kernels.fingerprint import variant_sha256
from kernels.launch import load
from kernels.registry import variant

SAMPLES = {"smoke": 2, "quick": 5, "full": 8}
SLOW_SAMPLES = 3
SLOW_CALL_NS = 1e6
# A published kernel that takes longer would hold the run up: it is recorded as too slow.
CALL_LIMIT_NS = 1e8
CALLS = {"smoke": 2, "quick": 10, "full": 14}
# Rounds of calls before the timed ones: torch.compile's first call takes twice its sixth (H200).
WARM_CALLS = 5
# In the folder of the blocks: what takes the GPU away once is not asked for by the next block.
CRASHES = "crashes.jsonl"


@dataclass(frozen=True)
class Crash:
    """A variant at a point that took the GPU away in an earlier run of its sweep."""

    variant: str
    point: Point
    reason: str


class Block:
    """One block of a sweep on one device."""

    def __init__(self, name: str, mode: str, number: int, seed: int, device: str) -> None:
        self.name, self.mode, self.number, self.device = name, mode, number, device
        self.sweep: Sweep = sweep(name)
        self.seed = seed
        self.random = random.Random(f"{seed} {name} {number}")
        self.points = list(self.sweep.points(mode))
        self.random.shuffle(self.points)
        # As they are now: an edit during the block must not change what is recorded.
        self.commit = commit()
        self.fingerprints = {n: variant_sha256(variant(n)) for n in self.sweep.variants}
        self.outcomes: dict[tuple[str, Point], Outcome] = {}
        self.current: tuple[str, Point] | None = None
        self.reading: Callable[[], Reading] = Reading
        self.held = nullcontext

    def run(self, crashes: Iterable[Crash], facts: dict[str, Any]) -> pd.DataFrame:
        """Check, then time; one row a sample, in the RAW schema."""
        for crash in crashes:
            reason = f"took the GPU away in an earlier run: {crash.reason}"
            self.outcomes[crash.variant, crash.point] = Outcome("skipped", reason)
        try:
            for point in self._track("checking"):
                self._examine(point)
            logging.info("checked %d points", len(self.points))
            rows: list[dict[str, Any]] = []
            with self._sampler():
                for point in self._track("timing"):
                    rows += self._time(point)
        except Exception as error:
            raise_if_lost(error, self.device)
            raise
        return self._table(rows, facts)

    def _track(self, what: str) -> Iterable[Point]:
        title = f"{self.name}, block {self.number}: {what}"
        return track(self.points, title)

    def _sampler(self):
        if self.device == "cpu":
            return nullcontext()
        sampler = Sampler(f"GPU-{torch.cuda.get_device_properties().uuid}")
        self.reading = lambda: sampler.latest
        self.held = sampler.held
        return sampler

    def _examine(self, point: Point) -> None:
        problem = Problem(point, self.device, self.seed)
        for name in self.sweep.variants:
            self.current = name, point
            if self.current not in self.outcomes:
                outcome = examine(name, problem)
                if outcome.status == "wrong":
                    logging.warning("wrong: %s at %s: %s", name, point, outcome.reason)
                self.outcomes[self.current] = _in_time(outcome)

    def _time(self, point: Point) -> Iterator[dict[str, Any]]:
        entries = list(self.sweep.entries())
        ready = []
        for entry in entries:
            name = entry.removesuffix(AGAIN)
            outcome = self.outcomes[name, point]
            if outcome.status == "ok":
                ready.append(entry)
            else:
                yield self._row(entry, point, outcome, timer="none", l2="none")
        if "host" in self.sweep.timers:
            yield from self._time_host(point, ready)
        if self.device == "cuda":
            yield from self._time_device(point, ready)

    def _time_host(self, point: Point, entries: list[str]) -> Iterator[dict[str, Any]]:
        x = planted(point.rows, point.cols, getattr(torch, point.dtype), self.device, self.seed)
        pairs = self._pairs(entries, (x, torch.empty_like(x)))
        for sample in range(SAMPLES[self.mode]):
            for order, entry in enumerate(self._shuffled(entries)):
                self.current = entry.removesuffix(AGAIN), point
                ns = timer.host_ns(load(self.current[0]), pairs[entry])
                yield self._sample(entry, point, order, sample, ns, "host", "none")

    def _time_device(self, point: Point, entries: list[str]) -> Iterator[dict[str, Any]]:
        timers: dict[str, timer.DeviceTimer] = {}
        self.current = None  # the buffers are nobody's
        try:
            pairs = timer.buffers(point, self.device, self.seed)
            flush = timer.Flush(self.device)
            for entry in self._shuffled(entries):
                self.current = name, _ = entry.removesuffix(AGAIN), point
                estimate = self.outcomes[self.current].estimate_ns
                mine = timer.pairs_for(variant(name), pairs)
                timers[entry] = timer.DeviceTimer(
                    load(name), mine, flush, estimate, variant(name).graph
                )
            for sample in range(SAMPLES[self.mode]):
                for order, entry in enumerate(self._shuffled(entries)):
                    if timers[entry].slow and sample >= SLOW_SAMPLES:
                        continue
                    self.current = entry.removesuffix(AGAIN), point
                    ns = timers[entry].sample()
                    yield self._sample(entry, point, order, sample, ns, timers[entry].name, "cold")
            if "call" in self.sweep.timers:
                yield from self._time_calls(point, entries, pairs[0], flush)
        except torch.OutOfMemoryError:
            skipped = Outcome("skipped", memory_reason(point))
            for entry in entries:
                yield self._row(entry, point, skipped, timer="none", l2="none")
        finally:
            # The graphs' memory goes back before the next point allocates its own.
            timers.clear()
            torch.cuda.empty_cache()

    def _time_calls(
        self, point: Point, entries: list[str], pair: timer.Pair, flush: timer.Flush
    ) -> Iterator[dict[str, Any]]:
        pairs = self._pairs(entries, pair)
        for sample in range(-WARM_CALLS, CALLS[self.mode]):
            for order, entry in enumerate(self._shuffled(entries)):
                self.current = entry.removesuffix(AGAIN), point
                slow = self.outcomes[self.current].estimate_ns > SLOW_CALL_NS
                if slow and not 0 <= sample < SLOW_SAMPLES:
                    continue
                with self.held():
                    ns = timer.call_ns(load(self.current[0]), pairs[entry], flush)
                if sample >= 0:
                    yield self._sample(entry, point, order, sample, ns, "call", "cold")

    def _pairs(self, entries: list[str], pair: timer.Pair) -> dict[str, timer.Pair]:
        """``pair`` as each of ``entries`` takes it."""
        variants = {entry: variant(entry.removesuffix(AGAIN)) for entry in entries}
        return {entry: timer.pairs_for(v, [pair])[0] for entry, v in variants.items()}

    def _shuffled(self, entries: list[str]) -> list[str]:
        return self.random.sample(entries, len(entries))

    def _sample(
        self, entry: str, point: Point, order: int, sample: int, ns: float, timer: str, l2: str
    ) -> dict[str, Any]:
        outcome = self.outcomes[entry.removesuffix(AGAIN), point]
        row = self._row(entry, point, outcome, timer, l2)
        return {**row, "order": order, "sample": sample, "time_ns": ns, **asdict(self.reading())}

    def _row(
        self, entry: str, point: Point, outcome: Outcome, timer: str, l2: str
    ) -> dict[str, Any]:
        return {
            "variant": entry,
            **point._asdict(),
            "order": 0,
            "sample": 0,
            "time_ns": float("nan"),
            "timer": timer,
            "l2": l2,
            "status": outcome.status,
            "reason": outcome.reason,
            "max_rel_err": outcome.max_rel_err,
            "tuned": outcome.tuned,
            **asdict(Reading()),
            "t_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }

    def _table(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> pd.DataFrame:
        table = pd.DataFrame(rows)
        names = table["variant"].str.removesuffix(AGAIN)
        table = table.assign(
            schema_version=SCHEMA_VERSION,
            sweep=self.name,
            framework=names.map(lambda name: variant(name).framework),
            block=self.number,
            kernel_sha256=names.map(self.fingerprints),
            code_commit=self.commit,
            env_sha256=environment_sha256(facts),
        )
        return validated(RAW, table[list(RAW.columns)])


def _in_time(outcome: Outcome) -> Outcome:
    """``outcome``, or a skip with its reason where a call takes longer than the limit."""
    if not outcome.estimate_ns > CALL_LIMIT_NS:
        return outcome
    limit = f"the limit of a sweep is {CALL_LIMIT_NS / 1e9:g} s"
    reason = f"too slow: {outcome.estimate_ns / 1e9:.2g} s a call, {limit}"
    return replace(outcome, status="skipped", reason=reason)


def read_crashes(path: Path) -> list[Crash]:
    """The points that took the GPU away in earlier runs of this sweep."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [Crash(**{**r, "point": Point(*r["point"])}) for r in records]


def record_crash(path: Path, crash: Crash) -> None:
    """Append ``crash``, so that the next run of the sweep skips the point with this reason."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(crash)) + "\n")


def measure_block(
    name: str, mode: str, number: int, seed: int, device: str, hardware: Path, out: Path, log: Path
) -> None:
    """Measure block ``number`` of sweep ``name`` into ``out``, and end this process.

    Exits with 2 where this machine is not the one of ``hardware``; with 1 where the GPU is lost,
    after a record of the point beside ``out``.
    """
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(message)s")
    facts = json.loads(hardware.read_text())
    if environment_sha256(facts) != environment_sha256(collect(facts["source"], mode, seed)):
        print(
            f"{hardware} describes another GPU, driver, environment or seed than this one's: "
            "remove it and what was measured with it, or go back to that environment",
            file=sys.stderr,
        )
        sys.exit(2)
    crashes = out.with_name(CRASHES)
    block = Block(name, mode, number, seed, device)
    try:
        table = block.run(read_crashes(crashes), facts)
    except GpuLost as lost:
        where = f"at {block.current[0]} {block.current[1]}" if block.current else "between variants"
        if block.current:
            entry, point = block.current
            record_crash(crashes, Crash(entry, point, str(lost)))
        print(
            f"the GPU stopped answering in {name}, block {number}, {where}: {lost}. "
            "Finished blocks are kept; run the same command again to go on: it skips this point "
            "and says why.",
            file=sys.stderr,
        )
        sys.exit(1)
    write_raw(table, out)
    others = table["other_processes"].max()
    if others > 0:
        print(
            f"{others:.0f} other processes were on the GPU during {name}, block {number}: "
            "its samples are flagged",
            file=sys.stderr,
        )
    logging.info("%s: %d rows, %s", out, len(table), table["status"].value_counts().to_dict())
