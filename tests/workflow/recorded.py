"""An archive of a GPU that does not exist: every point of every sweep, times from a formula."""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pandas as pd

from experiments.archive import pack
from experiments.grids import (
    ACCURACY_INPUTS,
    ACCURACY_SHAPES,
    FIRST_CALL_POINTS,
    FIRST_CALL_VARIANTS,
)
from experiments.hardware import collect, environment_sha256
from experiments.sweeps import MODES, SWEEPS
from experiments.sweeps.sweep import AGAIN
from experiments.tables import ACCURACY, ELEMENT_BYTES, FIRST_CALLS, validated, write_raw
from kernels.registry import VARIANTS, variant
from tests.experiments.counted import counted
from tests.experiments.raw import Row, raw, row, stopped
from tests.experiments.watched import placed_rows, sanitized

GPU = "test-gpu"
SOURCE = f"archive-{GPU}"
ARCHIVE = Path("experiments/archive") / GPU
LAUNCH_NS = 2000.0
BYTES_PER_NS = 4000.0
COMMIT = "a" * 40


def record(root: Path) -> None:
    """Pack a full run of the test GPU into ``root``'s archive folder."""
    results = root / "recorded"
    (results / "raw").mkdir(parents=True)
    facts = {**collect(f"local-{GPU}", "full", 1), "gpu": "Test GPU", "code_commit": COMMIT}
    (results / "hardware.json").write_text(json.dumps(facts))
    (results / "correctness.csv").write_text("variant,status\n")
    (results / "gpu_tests.xml").write_text("<testsuites/>")
    errors().to_csv(results / "accuracy.csv", index=False)
    waits().to_csv(results / "first_call.csv", index=False)
    placed_rows().to_csv(results / "layouts.csv", index=False)
    counted().assign(code_commit=COMMIT).to_csv(results / "profile.csv", index=False)
    sanitized().to_csv(results / "sanitizer.csv", index=False)
    (results / "sanitizer.log").write_text("what the tools said\n")
    for name in SWEEPS:
        if name != "smoke":
            rows = samples(name, environment_sha256(facts))
            write_raw(raw(*rows), results / "raw" / f"{name}.csv.gz")
    pack(results, root / ARCHIVE)


def forget(root: Path, *names: str) -> None:
    """As if the archive of the test GPU in ``root`` had been packed without these files."""
    archive = root / ARCHIVE
    listing = archive / "SHA256SUMS"
    lines = listing.read_text().splitlines(keepends=True)
    listing.write_text("".join(line for line in lines if line.split()[1] not in names))
    for name in names:
        (archive / name).unlink()


def samples(name: str, environment: str) -> Iterator[Row]:
    """One sample a block of every variant at every point of sweep ``name``."""
    sweep = SWEEPS[name]
    for point, entry, block in product(sweep.points("full"), sweep.entries(), range(MODES["full"])):
        v = variant(entry.removesuffix(AGAIN))
        facts = {
            "sweep": name, "block": block, "env_sha256": environment, "code_commit": COMMIT,
            **point._asdict(),
        }  # fmt: skip
        if refusal := v.refusal(point.dtype, point.cols):
            yield stopped(entry, "skipped", refusal, **facts)
            continue
        moved = v.passes(point.cols) * point.rows * point.cols * ELEMENT_BYTES[point.dtype]
        for timer in sweep.timers:
            ns = LAUNCH_NS + moved / BYTES_PER_NS + block
            yield row(entry, ns, timer=timer, **facts)


def errors() -> pd.DataFrame:
    """An accuracy table: every variant makes the same error."""
    rows = [
        {
            "variant": v.name, "dtype": dtype, "input": kind, "rows": rows, "cols": cols,
            "status": "ok", "reason": "", "max_ulps": 0.5, "mean_ulps": 0.25, "row_sum_err": 1e-7,
            "kernel_sha256": "a" * 64,
        }
        for v in VARIANTS if not v.ceiling
        for dtype, (rows, cols), kind in product(v.dtypes, ACCURACY_SHAPES, ACCURACY_INPUTS)
    ]  # fmt: skip
    return validated(ACCURACY, pd.DataFrame(rows))


def waits() -> pd.DataFrame:
    """A table of first calls: constants cost a compilation at every width."""
    rows = [
        {
            "variant": name, **point._asdict(), "status": "ok", "reason": "",
            "first_ms": 300.0 if name == "triton_constant" or number == 0 else 0.05,
            "again_ms": 0.04, "kernel_sha256": "a" * 64, "code_commit": COMMIT,
        }
        for name in FIRST_CALL_VARIANTS for number, point in enumerate(FIRST_CALL_POINTS)
    ]  # fmt: skip
    return validated(FIRST_CALLS, pd.DataFrame(rows))
