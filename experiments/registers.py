"""S5's kernels as compiled, beside the registers, spills and occupancy that S5 prints by hand.

Needs no GPU: registers and spills come from the build, occupancy from them (kernels/occupancy.py).

    python -m experiments.registers --build results/build --out registers.csv --table registers.md
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pandera.pandas as pa
import typer
import yaml

from experiments.markdown import head, line
from experiments.sweeps import SWEEPS
from experiments.tables import BadTable, read_csv, validated
from kernels.occupancy import occupancy
from kernels.registry import VARIANTS, Launch, Variant, variant

PRINTED = Path(__file__).with_name("printed_registers.yaml")
ARCHES = ("sm_80", "sm_90")  # S5's A100, and the GPU of its outlook
COLS = SWEEPS["worklog"].cols
DTYPE = "float32"

_text: dict[str, Any] = {"coerce": True, "nullable": False}
_number: dict[str, Any] = {"coerce": True, "nullable": True}
# One row a kernel, number of columns and architecture; two where S5 says two things about it.
# The columns from printed_data on are S5's, empty where it says nothing.
REGISTERS = pa.DataFrameSchema(
    {
        "variant": pa.Column(str, **_text),
        "kernel": pa.Column(str, **_text),
        "cols": pa.Column(int, coerce=True),
        "arch": pa.Column(str, pa.Check.isin(ARCHES), **_text),
        "threads": pa.Column("Int64", **_number),
        "registers": pa.Column("Int64", **_number),
        "spill_bytes": pa.Column("Int64", **_number),
        "shared_bytes": pa.Column("Int64", **_number),
        "occupancy_pct": pa.Column(float, pa.Check.in_range(0, 100), **_number),
        "reason": pa.Column(str, coerce=True),
        "printed_data": pa.Column("Int64", **_number),
        "printed_registers": pa.Column("Int64", **_number),
        "printed_spills": pa.Column(str, pa.Check.isin(("yes", "no", "")), coerce=True),
        "printed_occupancy_pct": pa.Column(float, **_number),
        "place": pa.Column(str, coerce=True),
    },
    strict=True,
    ordered=True,
)


@dataclass(frozen=True)
class Printed:
    """One statement of S5 about a kernel at a number of columns; None where it says nothing."""

    variant: str
    kernel: str
    cols: int
    place: str
    data: int | None = None
    registers: int | None = None
    spills: bool | None = None
    occupancy: float | None = None

    def cells(self) -> dict[str, Any]:
        """As columns of REGISTERS."""
        return {
            "printed_data": self.data,
            "printed_registers": self.registers,
            "printed_spills": {None: "", True: "yes", False: "no"}[self.spills],
            "printed_occupancy_pct": self.occupancy,
            "place": self.place,
        }


SILENT = Printed("", "", 0, "").cells()


def printed(path: Path = PRINTED) -> list[Printed]:
    """S5's statements, in its order; each names a registered variant and one of its kernels."""
    found = [Printed(**entry) for entry in yaml.safe_load(path.read_text())]
    for statement in found:
        kernels = launch_of(variant(statement.variant)).kernels
        if statement.kernel not in kernels:
            raise ValueError(
                f"{path}: {statement.variant} has no kernel '{statement.kernel}'; known: "
                f"{', '.join(kernels)}"
            )
    return found


def published() -> list[Variant]:
    """S5's kernels, without those that differ from a published one by a macro."""
    return [v for v in VARIANTS if v.publication == "S5" and v.launch and not v.launch.defines]


def launch_of(v: Variant) -> Launch:
    if v.launch is None:
        raise ValueError(f"{v.name} is no CUDA kernel: it has no launch policy")
    return v.launch


def beside(resources: pd.DataFrame, statements: list[Printed]) -> pd.DataFrame:
    """The REGISTERS table of the build's ``resources`` (of several architectures)."""
    rows = []
    for v in published():
        said = [s for s in statements if s.variant == v.name]
        for cols in sorted({*COLS, *(s.cols for s in said)}):
            for kernel in launch_of(v).kernels:
                here = [s.cells() for s in said if (s.kernel, s.cols) == (kernel, cols)]
                for arch in ARCHES:
                    cells = compiled(v, kernel, cols, arch, resources)
                    if cells["reason"] and not here:
                        continue  # neither compiled nor spoken of
                    names = {"variant": v.name, "kernel": kernel, "cols": cols, "arch": arch}
                    rows += [{**names, **cells, **statement} for statement in here or [SILENT]]
    table = pd.DataFrame(rows).reindex(columns=list(REGISTERS.columns))
    return validated(REGISTERS, table)


def compiled(
    v: Variant, kernel: str, cols: int, arch: str, resources: pd.DataFrame
) -> dict[str, Any]:
    """What the instance of ``kernel`` that takes rows of ``cols`` uses, or the reason of none."""
    launch = launch_of(v)
    if refusal := v.refusal(DTYPE, cols):
        return {"reason": f"not compiled: it {refusal}"}
    threads, dynamic = launch.block(cols)
    wanted = {
        "arch": arch, "variant": v.name, "dtype": DTYPE,
        "cols_held": launch.cols_held(launch.tile(cols)),
        "edges": launch.whole and not launch.filled(cols),
    }  # fmt: skip
    mine = resources[(resources[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    if mine.empty or (mine["status"] != "ok").any():
        return {"reason": "it does not compile" if len(mine) else f"not built for {arch}"}
    # A file's kernels are reported in the order of their launches.
    row = mine.iloc[launch.kernels.index(kernel)]
    shared = int(row["static_shared_bytes"]) + dynamic
    return {
        "threads": threads,
        "registers": row["registers"],
        "spill_bytes": row["spill_bytes"],
        "shared_bytes": shared,
        "occupancy_pct": 100 * occupancy(arch, threads, int(row["registers"]), shared),
        "reason": "",
    }


def markdown(table: pd.DataFrame) -> str:
    """A REGISTERS table for people: the architectures side by side, then what S5 prints."""
    uses = [f"{arch}: {what}" for arch in ARCHES for what in ("registers", "spilled", "occupancy")]
    heads = ["variant", "kernel", "columns", "threads", *uses]
    heads += ["S5: floats of data", "registers", "spills", "occupancy", "place"]
    lines = [
        "Registers and spilled bytes are a thread's; occupancy follows from registers, threads and "
        "shared memory.",
        "",
        *head(heads),
    ]
    keys = ["variant", "kernel", "cols", "place"]
    for (name, kernel, cols, place), rows in table.groupby(keys, sort=False):
        cells = [str(name), str(kernel), f"{cols:,}", _cell(rows["threads"].iloc[0])]
        by_arch = rows.set_index("arch")
        for arch in ARCHES:
            row = by_arch.loc[arch]
            cells += [_cell(row[key]) for key in ("registers", "spill_bytes")]
            cells.append(row["reason"] or f"{row['occupancy_pct']:g}%")
        said = rows.iloc[0]
        cells += [_cell(said["printed_data"]), _cell(said["printed_registers"])]
        cells += [said["printed_spills"], _cell(said["printed_occupancy_pct"], "%"), str(place)]
        lines.append(line(cells))
    return "\n".join(lines) + "\n"


def _cell(value: Any, unit: str = "") -> str:
    return "" if pd.isna(value) else f"{value:g}{unit}"


def read_build(folder: Path) -> Iterator[pd.DataFrame]:
    """The resources.csv of each architecture.  Raises BadTable."""
    for arch in ARCHES:
        path = folder / arch / "resources.csv"
        if not path.exists():
            raise BadTable(f"{path} does not exist: python -m kernels.build --arch {arch} makes it")
        yield read_csv(path)


def main(
    build: Annotated[Path, typer.Option(help="folder with a resources.csv an architecture")],
    out: Annotated[Path, typer.Option(help="the table, a CSV")],
    table: Annotated[Path, typer.Option(help="the same for people, in Markdown")],
) -> None:
    """Write the table twice."""
    try:
        made = beside(pd.concat(read_build(build), ignore_index=True), printed())
    except BadTable as error:
        print(error)
        raise typer.Exit(2) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    made.to_csv(out, index=False)
    table.write_text(markdown(made))


if __name__ == "__main__":
    typer.run(main)
