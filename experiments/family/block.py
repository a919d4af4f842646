"""One block of an operator: a fresh process in which all implementations are checked, then timed.

Case by case, in an order that the seed and the block fix: no time without a correct result before
it, and the samples of all implementations in turn, those of the ceilings among them.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from experiments import timer
from experiments.block import CALL_LIMIT_NS
from experiments.check import Reference
from experiments.examine import GpuLost, raise_if_lost
from experiments.family import operator_of
from experiments.family.attempt import attempt, out_of_memory
from experiments.family.fingerprint import sha256_of
from experiments.family.operator import (
    ANOTHER_MACHINE,
    LOST,
    Call,
    Case,
    Implementation,
)
from experiments.family.tables import RAW, SCHEMA_VERSION
from experiments.hardware import collect, commit, environment_sha256
from experiments.nvml import Reading, Sampler
from experiments.tables import validated, write_raw

SLOW_SAMPLES = 3
CRASHES = "crashes.jsonl"
# A kernel that does not end would hold the run up.  FlashInfer is compiled for two minutes.
PATIENCE_S = 300.0
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Crash:
    """An implementation at a case (as text) that took the GPU away in an earlier process."""

    implementation: str
    case: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What checking an implementation at a case gave, and its call where that may be timed."""

    status: str
    reason: str = ""
    error: float = float("nan")
    tolerance: float = float("nan")
    estimate_ns: float = float("nan")
    extra_bytes: float = float("nan")
    call: Call | None = None


class Block:
    """One block of an operator on one device."""

    def __init__(self, name: str, mode: str, number: int, seed: int, device: str) -> None:
        self.name, self.mode, self.number, self.device = name, mode, number, device
        self.operator, self.seed = operator_of(name), seed
        self.random = random.Random(f"{seed} {name} {number}")
        # As they are now: an edit during the block must not change what is recorded.
        self.commit, self.fingerprint = commit(), sha256_of(name)
        self.crashed: dict[tuple[str, str], str] = {}
        self.current: tuple[str, str] | None = None
        self.since, self.done = time.monotonic(), threading.Event()
        self.reading: Callable[[], Reading] = Reading

    def run(self, crashes: Iterable[Crash], facts: dict[str, Any]) -> pd.DataFrame:
        """Check and time every case; one row a sample, in the RAW schema.  Raises GpuLost."""
        self.crashed = {(each.implementation, each.case): each.reason for each in crashes}
        cases, rows = self._shuffled(self.operator.in_mode(self.mode)), []
        try:
            with self._sampler():
                for case in cases:
                    rows += self._case(case)
                    logging.info("%s, block %d: %s", self.name, self.number, case)
        except Exception as error:
            raise_if_lost(error, self.device)
            raise
        table = pd.DataFrame(rows).assign(
            schema_version=SCHEMA_VERSION, operator=self.name, block=self.number,
            kernel_sha256=self.fingerprint, code_commit=self.commit,
            env_sha256=environment_sha256(facts),
        )  # fmt: skip
        return validated(RAW, table[list(RAW.columns)])

    def _begin(self, each: Implementation, case: Case) -> tuple[str, str]:
        """Say what is asked for, so that a loss of the GPU is laid to it."""
        self.current, self.since = (each.name, str(case)), time.monotonic()
        return self.current

    def _shuffled(self, things: Iterable[Any]) -> list[Any]:
        some = list(things)
        return self.random.sample(some, len(some))

    def _sampler(self):
        if self.device == "cpu":
            return nullcontext()
        sampler = Sampler(f"GPU-{torch.cuda.get_device_properties().uuid}")
        self.reading = lambda: sampler.latest
        return sampler

    # --- A case -------------------------------------------------------------------------------

    def _case(self, case: Case) -> Iterator[dict[str, Any]]:
        outcomes: dict[Implementation, Outcome] = {}
        try:
            tensors = self.operator.tensors(case, self.device, self.seed)
            for each in self.operator.implementations:
                outcomes[each] = self.examine(each, case, tensors)
            if self.device == "cuda":
                yield from self._device_times(case, tensors, outcomes)
            else:
                yield from self._host_times(case, tensors, outcomes)
        except torch.OutOfMemoryError:
            for each in self.operator.implementations:
                yield self._row(each, case, Outcome("skipped", out_of_memory(case)))
        finally:
            tensors = ()
            outcomes.clear()
            if self.device == "cuda":
                torch.cuda.empty_cache()

    def examine(self, each: Implementation, case: Case, tensors: Tensors) -> Outcome:
        """Run ``each`` at ``case`` and compare what it gives.  Raises GpuLost."""
        key = self._begin(each, case)
        if key in self.crashed:
            return Outcome("skipped", f"took the GPU away in an earlier run: {self.crashed[key]}")
        outcome, reason = attempt(case, self.device, lambda: self._checked(each, case, tensors))
        if outcome is None:
            return Outcome("skipped", reason)
        if outcome.status == "wrong":
            logging.warning("wrong: %s at %s: %s", each.name, case, outcome.reason)
        return outcome

    def _checked(self, each: Implementation, case: Case, tensors: Tensors) -> Outcome:
        call = each.prepare(case, self.device)
        for out in tensors[len(tensors) - self.operator.outputs :]:
            out.fill_(torch.nan)  # what nobody writes is seen
        watched = Reference(tensors[0])
        result = call(*self.given(each, tensors))
        error = (each.error or self.operator.error)(case, tensors, result)
        outcome = Outcome("wrong", error.reason, error.value, error.most)
        if not watched.unchanged():
            changed = self.operator.tensors(case, self.device, self.seed)
            for mine, fresh in zip(tensors, changed, strict=True):
                mine.copy_(fresh)
            return replace(outcome, reason="it changed its input")
        if error.reason:
            return outcome
        if each.repeats and not equal(result, call(*tensors)):
            return replace(outcome, reason="it gives something else for equal inputs")
        del result
        estimate, extra = self._once_more(call, self.given(each, tensors))
        if estimate > CALL_LIMIT_NS:
            limit = f"the limit is {CALL_LIMIT_NS / 1e9:g} s"
            reason = f"too slow: {estimate / 1e9:.2g} s a call, {limit}"
            return replace(outcome, status="skipped", reason=reason)
        return replace(outcome, status="ok", estimate_ns=estimate, extra_bytes=extra, call=call)

    def given(self, each: Implementation, tensors: Tensors) -> Tensors:
        """What ``each`` is called with: of what it writes over, a copy."""
        return cloned(tensors) if each.overwrites else tensors

    def _once_more(self, call: Call, tensors: Tensors) -> tuple[float, float]:
        """Nanoseconds of a warm call, and the bytes that it has allocated at most."""
        if self.device == "cpu":
            return 0.0, float("nan")
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        pair: Any = tensors, None
        estimate = timer.estimate_ns(of_pair(call), pair)
        return estimate, float(torch.cuda.max_memory_allocated() - before)

    # --- Times --------------------------------------------------------------------------------

    def _host_times(
        self, case: Case, tensors: Tensors, outcomes: dict[Implementation, Outcome]
    ) -> Iterator[dict[str, Any]]:
        yield from self._stopped(case, outcomes)
        ready = {each: of_pair(o.call) for each, o in outcomes.items() if o.call}
        for sample in range(self.operator.samples(self.mode)):
            for order, each in enumerate(self._shuffled(ready)):
                pair: Any = self.given(each, tensors), None
                ns = timer.host_ns(ready[each], pair)
                yield self._row(each, case, outcomes[each], ns, order, sample, "host", "none")

    def _device_times(
        self, case: Case, tensors: Tensors, outcomes: dict[Implementation, Outcome]
    ) -> Iterator[dict[str, Any]]:
        self.current = None  # the copies are nobody's
        flush, copies = timer.Flush(self.device), self._copies(case, tensors)
        timers: dict[Implementation, timer.DeviceTimer | timer.CallTimer] = {}
        ready = {each: of_pair(o.call) for each, o in outcomes.items() if o.call}
        for each in self._shuffled(ready):
            self._begin(each, case)
            try:
                mine = [cloned(t) for t in copies] if each.overwrites else copies
                pairs: Any = [(given, None) for given in mine]
                estimate = outcomes[each].estimate_ns
                timers[each] = (
                    timer.CallTimer(ready[each], pairs[0], flush)
                    if self.operator.waits
                    else timer.DeviceTimer(ready[each], pairs, flush, estimate, each.graph)
                )
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                outcomes[each] = Outcome("skipped", out_of_memory(case))
        yield from self._stopped(case, outcomes)
        for sample in range(self.operator.samples(self.mode)):
            for order, each in enumerate(self._shuffled(timers)):
                if timers[each].slow and sample >= SLOW_SAMPLES:
                    continue
                self._begin(each, case)
                ns, how = timers[each].sample(), timers[each].name
                yield self._row(each, case, outcomes[each], ns, order, sample, how, "cold")

    def _copies(self, case: Case, tensors: Tensors) -> list[Tensors]:
        """The tensors and copies of them: as many as the L2 does not hold, as timer.buffers.

        Of calls each is timed by itself, after a flush: there the tensors alone.
        """
        if self.operator.waits:
            return [tensors]
        l2 = timer.L2_MULTIPLE * torch.cuda.get_device_properties(self.device).L2_cache_size
        wanted = -(-max(timer.REPLAY_BYTES, l2) // self.operator.n_bytes(case))
        count = min(timer.MOST_PAIRS, max(1, wanted))
        return [tensors, *(cloned(tensors) for _ in range(count - 1))]

    def _stopped(
        self, case: Case, outcomes: dict[Implementation, Outcome]
    ) -> Iterator[dict[str, Any]]:
        for each, outcome in outcomes.items():
            if outcome.status != "ok":
                yield self._row(each, case, outcome)

    def _row(
        self, each: Implementation, case: Case, outcome: Outcome, ns: float = float("nan"),
        order: int = 0, sample: int = 0, how: str = "none", l2: str = "none",
    ) -> dict[str, Any]:  # fmt: skip
        timed = outcome.status == "ok"
        return {
            "implementation": each.name, **case.columns,
            "ideal_bytes": (each.n_bytes or self.operator.n_bytes)(case),
            "flops": self.operator.flops(case), "order": order, "sample": sample, "time_ns": ns,
            "timer": how, "l2": l2, "status": outcome.status, "reason": outcome.reason,
            "error": outcome.error, "tolerance": outcome.tolerance,
            "extra_bytes": outcome.extra_bytes, **asdict(self.reading() if timed else Reading()),
            "t_utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }  # fmt: skip


def of_pair(call: Call) -> Call:
    """``call`` as timers take it: with a pair, of which it takes the first as its tensors."""
    return lambda given, _: call(*given)


def cloned(tensors: Tensors) -> Tensors:
    return tuple(t.clone() for t in tensors)


def equal(one: Any, other: Any) -> bool:
    """Whether two results, tensors or tuples of them, are equal bit for bit."""
    if isinstance(one, Tensor):
        return bool(torch.equal(one, other))
    return all(equal(mine, its) for mine, its in zip(one, other, strict=True))


def read_crashes(path: Path) -> list[Crash]:
    """What took the GPU away in earlier processes."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Crash(**json.loads(line)) for line in lines]


def record(block: Block, crashes: Path, reason: str) -> None:
    """Write down what took the GPU away, so that the next process leaves it out."""
    if block.current:
        with crashes.open("a") as file:
            file.write(json.dumps(asdict(Crash(*block.current, reason))) + "\n")
    where = " at ".join(block.current) if block.current else "between implementations"
    print(f"the GPU stopped answering in {block.name}: {where}: {reason}", file=sys.stderr)


def watch(block: Block, crashes: Path) -> None:
    """End this process where one implementation does not end, until the block is done."""
    while not block.done.wait(1.0):
        if time.monotonic() - block.since > PATIENCE_S:
            record(block, crashes, f"no end within {PATIENCE_S:.0f} s")
            os._exit(LOST)


def measure_block(
    name: str, mode: str, number: int, seed: int, device: str, facts: dict[str, Any], out: Path,
    log: Path,
) -> None:  # fmt: skip
    """Measure block ``number`` of operator ``name`` into ``out``, and end this process.

    Exits with ANOTHER_MACHINE where this one is not that of ``facts``; with LOST where the GPU is
    lost, after a record of the case beside ``out``.
    """
    logging.basicConfig(filename=log, level=logging.INFO, format="%(asctime)s %(message)s")
    if environment_sha256(facts) != environment_sha256(collect(facts["source"], mode, seed)):
        print(
            "the hardware.json that is given describes another GPU, driver, environment or seed "
            "than this one's: remove it, or go back to that environment",
            file=sys.stderr,
        )
        sys.exit(ANOTHER_MACHINE)
    block, crashes = Block(name, mode, number, seed, device), out.with_name(CRASHES)
    threading.Thread(target=watch, args=(block, crashes), daemon=True).start()
    try:
        table = block.run(read_crashes(crashes), facts)
    except GpuLost as lost:
        record(block, crashes, str(lost))
        sys.exit(LOST)
    finally:
        block.done.set()
    write_raw(table, out)
    logging.info("%s: %d rows, %s", out, len(table), table["status"].value_counts().to_dict())
