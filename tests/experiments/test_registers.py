"""S5's kernels beside S5's numbers: every instance, every statement, and reasons for the gaps."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.registers import ARCHES, COLS, beside, markdown, printed, published
from kernels.cuda_compiler import instances
from kernels.registry import variant
from tests.commands import module


def built(**changes: object) -> pd.DataFrame:
    """A resources.csv of both architectures: registers grow with the row, the widest spill."""
    rows = []
    for arch in ARCHES:
        for v in published():
            assert v.launch is not None
            for made in instances(v.launch):
                vectors = made.tile[1] if made.tile else 0
                i = v.launch.kernels.index(made.kernel)
                rows.append(
                    {
                        "arch": arch, "variant": v.name, "dtype": "float32", "status": "ok",
                        "reason": "", "cols_held": v.launch.cols_held(made.tile),
                        "edges": made.edges, "threads": 1024, "static_shared_bytes": 256,
                        "registers": min(64, 20 + 4 * vectors) + i + 2 * made.edges,
                        "spill_bytes": 100 * (vectors > 8),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


@pytest.fixture
def table() -> pd.DataFrame:
    return beside(built(), printed())


def of(table: pd.DataFrame, name: str, cols: int, kernel: str = "softmax") -> pd.DataFrame:
    where = (table["variant"] == name) & (table["cols"] == cols) & (table["kernel"] == kernel)
    return table[where]


def test_every_instance_is_there_for_both_architectures(table: pd.DataFrame):
    done = table[table["reason"] == ""]
    for v in published():
        assert v.launch is not None
        wanted = {c for c in COLS if v.refusal("float32", c) is None}
        for kernel in v.launch.kernels:
            for arch in ARCHES:
                mine = done[(done["variant"] == v.name) & (done["arch"] == arch)]
                assert set(mine.loc[mine["kernel"] == kernel, "cols"]) == wanted


def test_every_statement_of_s5_is_there_once_an_architecture(table: pd.DataFrame):
    spoken = table[table["place"] != ""]
    statements = printed()
    assert len(spoken) == len(ARCHES) * len(statements)
    for arch, mine in spoken.groupby("arch"):
        found = {(r.variant, r.kernel, r.cols, r.place) for r in mine.itertuples()}
        assert found == {(s.variant, s.kernel, s.cols, s.place) for s in statements}, arch


def test_two_statements_about_one_kernel_both_stand(table: pd.DataFrame):
    rows = of(table, "cuda_block_row", 65_536)
    assert len(rows) == 2 * len(ARCHES)
    assert set(rows["printed_spills"]) == {"yes", "no"}
    assert set(rows["printed_registers"].dropna()) == {78}
    assert set(rows["printed_occupancy_pct"].dropna()) == {50}
    assert set(rows["registers"]) == {64}
    assert set(rows["spill_bytes"]) == {100}


def test_a_statement_about_what_is_not_compiled_has_the_reason(table: pd.DataFrame):
    rows = of(table, "cuda_warp_row", 65_536)
    assert rows["registers"].isna().all()
    assert rows["reason"].str.startswith("not compiled: it takes at most 8192 columns").all()
    assert of(table, "cuda_warp_row", 16_384).empty


def test_the_instance_is_the_one_that_is_launched(table: pd.DataFrame):
    launch = variant("cuda_warp_row").launch
    assert launch is not None
    assert launch.tile(4096) == (128, 32)
    # 20 and 4 for each of 32 vectors, at most 64, in blocks of 128 threads: 4 warps of 2048 each.
    rows = of(table, "cuda_warp_row", 4096)
    assert set(rows["threads"]) == {128}
    assert set(rows["registers"]) == {64}
    assert set(rows["occupancy_pct"]) == {50.0}


def test_a_row_that_fills_no_tile_has_the_form_that_looks_for_its_end(table: pd.DataFrame):
    # S5's kernel begins at 4096 columns: ours of 1024 threads takes less with its loads checked.
    assert set(of(table, "cuda_block_row", 2048)["registers"]) == {26}
    assert set(of(table, "cuda_block_row", 4096)["registers"]) == {24}


def test_threads_of_a_streaming_kernel_follow_its_columns(table: pd.DataFrame):
    threads = {
        c: set(of(table, "cuda_online_reload", c)["threads"]) for c in (1024, 2048, 4096)
    }  # fmt: skip
    assert threads == {1024: {256}, 2048: {512}, 4096: {1024}}


def test_the_two_kernels_of_a_split_are_told_apart(table: pd.DataFrame):
    first, second = (of(table, "cuda_split_reread", 1024, k) for k in ("partials", "finish"))
    assert set(first["registers"]) == {20}
    assert set(second["registers"]) == {21}


def test_what_did_not_compile_or_was_not_built_says_so():
    broken = built()
    broken.loc[broken["variant"] == "cuda_block_row", "status"] = "failed"
    rows = of(beside(broken, printed()), "cuda_block_row", 4096)
    assert set(rows["reason"]) == {"it does not compile"}
    other = built()
    rows = of(beside(other[other["arch"] == "sm_80"], printed()), "cuda_block_row", 4096)
    assert rows.set_index("arch")["reason"].to_dict() == {
        "sm_80": "",
        "sm_90": "not built for sm_90",
    }


def test_a_statement_names_a_kernel_that_there_is(tmp_path: Path):
    path = tmp_path / "printed.yaml"
    path.write_text("- {variant: cuda_warp_row, kernel: finish, cols: 64, place: here}\n")
    with pytest.raises(ValueError, match="cuda_warp_row has no kernel 'finish'; known: softmax"):
        printed(path)
    path.write_text("- {variant: triton_row, kernel: softmax, cols: 64, place: here}\n")
    with pytest.raises(ValueError, match="triton_row is no CUDA kernel"):
        printed(path)


def test_people_read_both_architectures_and_the_statement_on_one_line(table: pd.DataFrame):
    lines = markdown(table).splitlines()
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert len(widths) == 1
    (line,) = (s for s in lines if "text before the first table" in s)
    assert line == (
        "| cuda_warp_row | softmax | 4,096 | 128 | 64 | 100 | 50% | 64 | 100 | 50% | 128 |  | yes "
        "|  | text before the first table, which calls it the edge |"
    )


def test_the_command_writes_both_or_names_what_is_missing(tmp_path: Path):
    command = [
        "experiments.registers", "--build", tmp_path, "--out", tmp_path / "registers.csv",
        "--table", tmp_path / "registers.md",
    ]  # fmt: skip
    done = module(*command)
    assert done.returncode == 2
    assert "sm_80/resources.csv does not exist: python -m kernels.build --arch sm_80" in done.stdout
    for arch, rows in built().groupby("arch"):
        (tmp_path / str(arch)).mkdir()
        rows.to_csv(tmp_path / str(arch) / "resources.csv", index=False)
    done = module(*command)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "registers.md").read_text() == markdown(beside(built(), printed()))
    assert len(pd.read_csv(tmp_path / "registers.csv")) == len(beside(built(), printed()))
