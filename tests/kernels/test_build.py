"""Every variant compiles for every architecture; one that does not is named, the others stay."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from elftools.elf.elffile import ELFFile

from experiments.sweeps.sweep import EXACT
from kernels import build
from kernels.cuda_compiler import instances
from kernels.registry import ARCHITECTURES, ROOT, VARIANTS, variant
from kernels.triton.triton_hybrid import FAST_COLS
from tests import shared
from tests.commands import module
from tests.errata.compiler import disassembled, opcodes

# Limits of the architectures: registers a thread, dynamic shared memory a block (bytes).
COMPILED = ("cuda", "triton", "frontier")
# A mode of the frontier is compiled when it is met.
BUILT = [v for v in VARIANTS if v.framework in COMPILED and v.name != "frontier_invariant"]
AFTER_THE_BROKEN = ("triton_held", "cuda_float4", "cuda_float4_256")
MOST_REGISTERS = 255
MOST_SHARED = 227 * 1024


def read(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "resources.csv", dtype={"reason": str}).fillna({"reason": ""})


@pytest.fixture(scope="module", params=ARCHITECTURES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a build of everything for one architecture, from nothing."""
    return shared.built(request.param, tmp_path_factory)


@pytest.fixture
def cache(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was compiled for sm_90, but for variants that follow those that the tests break.

    They have to be compiled by a process that has just met a compiler's error.
    """
    made = shared.built("sm_90", tmp_path_factory) / "cache"
    copy = shutil.copytree(made, tmp_path / "cache")
    for facts in copy.glob("*.json"):
        if json.loads(facts.read_text())[0]["resources"]["variant"] in AFTER_THE_BROKEN:
            facts.unlink()
    return copy


def test_every_compiled_variant_is_there(built: Path):
    table = read(built)
    wanted = {(v.name, d) for v in BUILT for d in v.dtypes}
    assert set(zip(table["variant"], table["dtype"], strict=True)) == wanted
    assert set(table["status"]) == {"ok"}


def test_every_row_says_which_kernel_it_is_of(built: Path):
    table = read(built)
    assert not table.duplicated(["variant", "dtype", "specialisation"]).any()
    split = table.query("variant == 'cuda_split_reread'")["specialisation"]
    assert sorted(split) == ["finish", "finish edges", "partials", "partials edges"]


def test_resources_are_plausible(built: Path):
    table = read(built)
    assert table["registers"].between(1, MOST_REGISTERS).all()
    assert (table["code_bytes"] > 0).all()
    assert table["dynamic_shared_bytes"].between(0, MOST_SHARED).all()
    assert ((table["spill_bytes"] == 0) | (table["local_bytes"] > 0)).all()


def test_a_row_too_wide_for_the_registers_spills(built: Path):
    row = read(built).query("variant == 'triton_row'")
    widest = row["cols_held"] == row["cols_held"].max()
    assert (row.loc[widest, "spill_bytes"] > 0).all()
    assert (row.loc[row["cols_held"] <= 8192, "spill_bytes"] == 0).all()


def test_the_hybrids_fast_path_holds_nothing_that_spills(built: Path):
    held = read(built).query("variant == 'triton_hybrid' and cols_held > 0")
    assert held["cols_held"].max() == FAST_COLS
    assert variant("triton_hybrid").beyond == (FAST_COLS, 3)
    assert (held["spill_bytes"] == 0).all()


def test_cuda_rows_state_their_launch_policy(built: Path):
    for row in read(built).query("framework == 'cuda'").itertuples():
        launch = variant(str(row.variant)).launch
        assert launch is not None
        assert (row.threads, row.dynamic_shared_bytes) == launch.block(int(row.cols_held) or 10**9)


def test_a_variant_that_holds_its_row_is_there_for_each_of_its_tiles(built: Path):
    table = read(built)
    for v in VARIANTS:
        if v.launch and v.launch.tiles:
            held = sorted(set(table.loc[table["variant"] == v.name, "cols_held"]))
            assert held == [v.launch.cols_held(tile) for tile in v.launch.tiles]
            assert held[-1] == v.max_cols


def test_more_floats_than_registers_spill(built: Path):
    table = read(built)
    for name in ("cuda_warp_row", "cuda_block_row"):
        mine = table[(table["variant"] == name) & ~table["edges"]].sort_values("cols_held")
        assert mine["spill_bytes"].iloc[-1] > 0
        assert (mine["spill_bytes"].iloc[:4] == 0).all()


@pytest.mark.parametrize(("published", "exact"), EXACT.items())
def test_an_exact_form_has_the_librarys_exponential_throughout(
    built: Path, published: str, exact: str
):
    # expf first finds the power of two, with a saturating product; __expf does nothing of the kind.
    for name, reduced in ((published, False), (exact, True)):
        _, *kernels = disassembled((built / f"{name}-float32.cubin").read_bytes()).split("Function")
        launch = variant(name).launch
        assert launch is not None
        assert len(kernels) == len(instances(launch))
        for code in map(opcodes, kernels):
            assert code["MUFU.EX2"] > 0
            assert code["FFMA.SAT"] == (code["MUFU.EX2"] if reduced else 0)


def test_every_kernel_of_s5_has_its_exact_form():
    s5 = {v.name for v in VARIANTS if v.framework == "cuda" and v.publication == "S5"}
    assert s5 == {*EXACT, *EXACT.values()}
    assert len(EXACT) == 6
    for published, exact in EXACT.items():
        assert variant(published).file == variant(exact).file


def test_every_row_has_its_cubin(built: Path):
    table = read(built)
    cubins = list(built.glob("*.cubin"))
    # A cubin a compilation: a CUDA file's kernels share one.
    single = int((table["framework"] != "cuda").sum())
    cuda = table.loc[table["framework"] == "cuda", ["variant", "dtype"]].drop_duplicates()
    assert len(cubins) == single + len(cuda)
    for path in cubins:
        with path.open("rb") as file:
            assert ELFFile(file).header["e_machine"] == "EM_CUDA", path.name


def test_a_broken_variant_is_named_and_the_others_are_built(tmp_path: Path, cache: Path):
    shutil.copytree(ROOT, tmp_path / "kernels")
    cuda = tmp_path / "kernels" / "cuda" / "cuda_block_tree.cu"
    line = cuda.read_text().count("\n") + 1
    cuda.write_text(cuda.read_text() + "float broken = undeclared;\n")
    triton = tmp_path / "kernels" / "triton" / "triton_online.py"
    triton.write_text(triton.read_text().replace("tl.zeros", "tl.full").replace("tl.exp", "tl.exq"))

    command = ["kernels.build", "--arch", "sm_90", "--out", tmp_path / "out"]
    done = module(*command, root=tmp_path, cache=cache)

    assert done.returncode == 0, done.stdout
    assert f"cuda_block_tree.cu({line}): error: identifier" in done.stdout
    table = read(tmp_path / "out")
    broken = table[table["status"] == "failed"]
    assert set(broken["variant"]) == {"cuda_block_tree", "triton_online"}
    assert (
        broken["reason"].str.contains("undeclared") | broken["reason"].str.contains("exq")
    ).all()
    assert broken[["registers", "code_bytes"]].isna().all(axis=None)
    assert set(table.loc[table["status"] == "ok", "variant"]) == {v.name for v in BUILT} - {
        "cuda_block_tree",
        "triton_online",
    }


def test_a_file_that_does_not_import_is_named_and_old_cubins_go(tmp_path: Path, cache: Path):
    shutil.copytree(ROOT, tmp_path / "kernels")
    (tmp_path / "kernels" / "triton" / "triton_constant.py").write_text("def softmax(x, out:\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "gone-float32.cubin").write_bytes(b"of a variant that is no more")

    command = ["kernels.build", "--arch", "sm_90", "--out", tmp_path / "out"]
    done = module(*command, root=tmp_path, cache=cache)

    assert done.returncode == 0, done.stdout
    table = read(tmp_path / "out").query("status == 'failed'")
    assert set(table["variant"]) == {"triton_constant"}
    assert table["reason"].str.contains("triton_constant.py must import and define").all()
    assert not (tmp_path / "out" / "gone-float32.cubin").exists()


def test_what_is_kept_of_compiling_is_what_compiling_gives(built: Path):
    kept = ROOT / "resources" / f"{read(built)['arch'].iloc[0]}.csv"
    assert kept.read_text() == (built / "resources.csv").read_text(), "make resources renews it"


def test_what_is_known_by_content_is_not_compiled(tmp_path: Path):
    shutil.copytree(ROOT, tmp_path / "kernels")
    edited = tmp_path / "kernels" / "cuda" / "cuda_block_tree.cu"
    edited.write_text(edited.read_text() + "// another content\n")
    known = tmp_path / "kernels" / "resources" / "sm_90.csv"

    command = ["kernels.build", "--arch", "sm_90", "--out", tmp_path / "out", "--known", known]
    done = module(*command, root=tmp_path, cache=tmp_path / "cache")

    assert done.returncode == 0, done.stdout
    made = {path.name for path in (tmp_path / "out").glob("*.cubin")}
    assert made == {f"cuda_block_tree-{d}.cubin" for d in variant("cuda_block_tree").dtypes}
    before, after = pd.read_csv(known), read(tmp_path / "out")
    differ = before["content_sha256"] != after["content_sha256"]
    assert set(after.loc[differ, "variant"]) == {"cuda_block_tree"}
    rest = [c for c in before if c not in ("content_sha256", "reason")]
    pd.testing.assert_frame_equal(before[rest], after[rest])


def test_what_failed_before_is_tried_again(tmp_path: Path, cache: Path):
    failed = pd.read_csv(ROOT / "resources" / "sm_90.csv", dtype=str)
    mine = failed["variant"] == "cuda_block_tree"
    failed.loc[mine, ["status", "content_sha256"]] = ["failed", None]
    failed.to_csv(tmp_path / "known.csv", index=False)
    command = ["--arch", "sm_90", "--out", tmp_path / "out", "--known", tmp_path / "known.csv"]
    done = module("kernels.build", *command, cache=cache)
    assert ", 0 failed" in done.stdout
    assert (tmp_path / "out" / "cuda_block_tree-float32.cubin").exists()


def test_a_known_table_of_other_columns_is_refused(tmp_path: Path):
    (tmp_path / "known.csv").write_text("arch,variant\nsm_90,cuda_block_tree\n")
    with pytest.raises(
        ValueError, match=r"known\.csv is no resources\.csv of today: expected arch,"
    ):
        build.build("sm_90", tmp_path / "out", tmp_path / "known.csv")
    assert not (tmp_path / "out").exists()


def test_an_unknown_architecture_lists_the_known_ones(tmp_path: Path):
    with pytest.raises(
        ValueError, match="unknown architecture 'sm_1'; known: sm_80, sm_90, sm_100"
    ):
        build.build("sm_1", tmp_path)
    done = module("kernels.build", "--arch", "sm_1", "--out", tmp_path)
    assert done.returncode == 2
    assert "known: sm_80" in done.stdout
    assert "Traceback" not in done.stdout
