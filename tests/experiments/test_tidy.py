"""Tidy tables of hand-made blocks; every expected number is worked out here."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.tables import write_raw
from experiments.tidy import interval, tidy
from tests.commands import module
from tests.experiments.raw import Row, blocks, raw, row, stopped


def one(table: pd.DataFrame, variant: str, timer: str = "device") -> pd.Series:
    found = table[(table["variant"] == variant) & (table["timer"] == timer)]
    assert len(found) == 1
    return found.iloc[0]


def of(*rows: Row) -> pd.DataFrame:
    return tidy(raw(*rows))


def test_the_median_of_block_medians_is_reported():
    times = {0: (1000, 3000, 2000), 1: (5000, 4000, 9000)}
    rows = [row("torch_eager", ns, block=b) for b, samples in times.items() for ns in samples]
    got = one(of(*rows), "torch_eager")
    assert got["median_us"] == 3.5  # between 2 and 5
    assert (got["p20_us"], got["p80_us"]) == (2.0, 5.0)  # of 1 2 3 4 5 9
    assert (got["n_blocks"], got["n_samples"]) == (2, 6)


def test_ratios_are_formed_inside_a_block():
    table = of(
        *blocks("copy_torch", 100, 200, 300),
        *blocks("torch_eager", 400, 400, 600),
        *blocks("triton_row", 200, 800, 300),
    )
    got = one(table, "triton_row")
    assert got["fraction_of_copy"] == 0.5  # of 0.5, 0.25, 1; the medians' ratio is 2/3
    assert got["speedup_vs_torch"] == 2.0  # of 2, 0.5, 2; the medians' ratio is 4/3
    assert (got["fraction_low"], got["fraction_high"]) == (0.25, 1.0)
    assert one(table, "torch_eager")["speedup_vs_torch"] == 1.0


def test_copy_is_the_faster_ceiling_of_each_block():
    table = of(
        *blocks("copy_torch", 100, 300),
        *blocks("copy_memcpy", 200, 200),
        *blocks("triton_row", 200, 200),
    )
    assert one(table, "copy")["median_us"] == pytest.approx(0.15)  # of 0.1 and 0.2
    assert one(table, "copy")["fraction_of_copy"] == 1.0
    assert one(table, "triton_row")["fraction_of_copy"] == 0.75  # of 0.5 and 1
    assert one(table, "copy_torch")["fraction_of_copy"] == pytest.approx(5 / 6)  # of 1 and 2/3


def test_both_ways_to_take_device_time_meet():
    table = of(*blocks("copy_memcpy", 100, timer="events"), *blocks("triton_row", 200))
    assert set(table["timer"]) == {"device"}
    assert one(table, "triton_row")["fraction_of_copy"] == 0.5


def test_each_timer_has_its_own_ratio():
    table = of(
        *blocks("copy_torch", 100),
        *blocks("triton_row", 200),
        *blocks("copy_torch", 1000, timer="call"),
        *blocks("triton_row", 1250, timer="call"),
    )
    assert one(table, "triton_row")["fraction_of_copy"] == 0.5
    assert one(table, "triton_row", "call")["fraction_of_copy"] == 0.8


def test_points_do_not_mix():
    table = of(
        *blocks("copy_torch", 100),
        *blocks("copy_torch", 900, cols=1001),
        *blocks("triton_row", 200),
        *blocks("triton_row", 1000, cols=1001),
    )
    found = table[table["variant"] == "triton_row"].set_index("cols")
    assert found["fraction_of_copy"].to_dict() == {1000: 0.5, 1001: 0.9}


def test_equal_blocks_have_an_interval_without_width():
    got = one(
        of(*blocks("triton_row", *[500] * 5), *blocks("copy_torch", *[250] * 5)), "triton_row"
    )
    assert (got["median_us"], got["ci_low_us"], got["ci_high_us"]) == (0.5, 0.5, 0.5)
    assert (got["fraction_low"], got["fraction_high"]) == (0.5, 0.5)


def test_the_bootstrap_of_two_blocks_spans_them():
    # Medians of two draws from {1, 3} are 1, 2, 3 with shares 1/4, 1/2, 1/4.
    assert interval(np.array([1.0, 3.0])) == (2.0, 1.0, 3.0)
    assert interval(np.array([7.0])) == (7.0, 7.0, 7.0)


def test_only_blocks_with_their_reference_make_a_ratio():
    table = of(*blocks("copy_torch", 100), *blocks("triton_row", 200, 400))
    got = one(table, "triton_row")
    assert (got["fraction_of_copy"], got["fraction_high"]) == (0.5, 0.5)
    assert got["median_us"] == pytest.approx(0.3)
    assert math.isnan(got["speedup_vs_torch"])


def test_a_top_k_is_compared_with_torchs_of_the_same_k():
    table = of(
        *blocks("torch_eager", 50),
        *blocks("torch_topk_4", 600),
        *blocks("torch_topk_4/again", 1200),
        *blocks("torch_topk_8", 800),
        *blocks("cuda_topk_4", 200),
        *blocks("cuda_topk_8", 200),
        *blocks("triton_row", 100),
    )
    speeds = table.set_index("variant")["speedup_vs_torch"]
    assert (speeds["cuda_topk_4"], speeds["cuda_topk_8"], speeds["triton_row"]) == (3.0, 4.0, 0.5)
    assert (speeds["torch_topk_8"], speeds["torch_topk_4/again"]) == (1.0, 0.5)


def test_a_top_k_reads_its_input_and_writes_little():
    table = of(*blocks("cuda_topk_4", 2000), *blocks("torch_topk_4", 2000))
    # 4 x 1000 x 4 bytes a pass; 4 of each row with their columns are 4 x 4 x 12 bytes.
    assert one(table, "cuda_topk_4")["useful_gbps"] == pytest.approx(8.096)
    assert one(table, "cuda_topk_4")["moved_gbps"] == pytest.approx(8.096)
    assert one(table, "torch_topk_4")["useful_gbps"] == pytest.approx(8.096)
    assert one(table, "torch_topk_4")["moved_gbps"] == pytest.approx(24.096)


def test_bandwidths_count_useful_and_moved_bytes():
    table = of(
        *blocks("triton_row", 2000),
        *blocks("torch_naive", 2000),
        *blocks("triton_hybrid", 2000, rows=1, cols=20_000),
    )
    # 4 x 1000 x 4 bytes a pass, 2 passes in 2 us; torch_naive moves 8.
    assert one(table, "triton_row")["useful_gbps"] == pytest.approx(16)
    assert one(table, "triton_row")["moved_gbps"] == pytest.approx(16)
    assert one(table, "torch_naive")["useful_gbps"] == pytest.approx(16)
    assert one(table, "torch_naive")["moved_gbps"] == pytest.approx(64)
    # Beyond the row it holds, triton_hybrid reads three times: 4 passes of 80,000 bytes.
    assert one(table, "triton_hybrid")["useful_gbps"] == pytest.approx(80)
    assert one(table, "triton_hybrid")["moved_gbps"] == pytest.approx(160)


def test_blocks_that_tuned_alike_and_apart():
    alike = [row("torch_compile", 100, block=b, tuned="a(warps=4)") for b in (0, 1)]
    apart = [row("torch_compile", 100, block=b, cols=9, tuned=f"a(warps={8 - b})") for b in (0, 1)]
    table = of(*alike, *apart, row("triton_row"))
    assert one(table.query("cols == 1000"), "torch_compile")["tuned"] == "a(warps=4)"
    assert one(table.query("cols == 9"), "torch_compile")["tuned"] == "a(warps=7) or a(warps=8)"
    assert one(table, "triton_row")["tuned"] == ""


def test_wrong_in_one_block_is_wrong():
    wrong = stopped("triton_row", "wrong", "relative error 0.5", block=1, max_rel_err=0.5)
    table = of(*blocks("triton_row", 100), wrong, *blocks("triton_row", 90, cols=999))
    got = one(table, "triton_row", "none")
    assert (got["status"], got["reason"]) == ("wrong", "relative error 0.5")
    assert (got["max_rel_err"], got["n_samples"]) == (0.5, 0)
    assert math.isnan(got["median_us"])
    assert one(table, "triton_row")["cols"] == 999


def test_a_wrong_ceiling_sets_no_fraction():
    table = of(
        *blocks("copy_torch", 100, 100),
        *blocks("copy_memcpy", 10),
        stopped("copy_memcpy", "wrong", "the copy differs", block=1),
        *blocks("triton_row", 200, 200),
    )
    assert one(table, "triton_row")["fraction_of_copy"] == 0.5


def test_wrong_counts_before_skipped():
    table = of(
        stopped("triton_row", "skipped", "out of device memory", block=0),
        stopped("triton_row", "wrong", "relative error 0.5", block=1),
        *blocks("torch_eager", 100),
    )
    assert one(table, "triton_row", "none")["status"] == "wrong"


def test_skipped_in_one_block_counts_fewer_blocks():
    skipped = stopped("triton_row", "skipped", "out of device memory", block=0)
    got = one(of(skipped, row("triton_row", 100, block=1)), "triton_row")
    assert (got["status"], got["n_blocks"], got["median_us"]) == ("ok", 1, 0.1)


def test_skipped_everywhere_keeps_its_reason():
    reason = "takes at most 131072 columns"
    table = of(
        *(stopped("triton_row", "skipped", reason, block=b) for b in (0, 1)),
        *blocks("torch_eager", 100, 100),
    )
    got = one(table, "triton_row", "none")
    assert (got["status"], got["reason"], got["n_blocks"]) == ("skipped", reason, 0)


def test_changed_code_makes_its_own_rows_stale():
    table = of(
        *blocks("copy_torch", 100),
        *blocks("triton_row", 100, 100),
        row("triton_online", 100, block=0),
        row("triton_online", 100, block=1, kernel_sha256="c" * 64),
        row("torch_eager", 100, kernel_sha256="c" * 64),
        row("torch_eager/again", 100),
    )
    assert table.set_index("variant")["stale"].to_dict() == {
        "copy": False, "copy_torch": False, "torch_eager": True, "torch_eager/again": False,
        "triton_online": True, "triton_row": False,
    }  # fmt: skip


def test_a_stale_ceiling_makes_copy_stale():
    table = of(*blocks("copy_torch", 100), *blocks("copy_memcpy", 99, kernel_sha256="c" * 64))
    assert table.set_index("variant")["stale"].to_dict() == {
        "copy": True, "copy_memcpy": True, "copy_torch": False,
    }  # fmt: skip


def test_a_variant_that_is_gone_is_stale():
    gone = {**row("triton_row", 100), "variant": "triton_gone"}
    assert one(of(gone, *blocks("torch_eager", 100)), "triton_gone")["stale"]


def test_shares_of_throttled_and_contended_samples():
    # Power cap, idle, application clocks, thermal and none: the first and the fourth slow a GPU.
    masks, others = (0x4, 0x1, 0x2, 0x20, 0), (0, 1, float("nan"), 0, 0)
    rows = [
        row("triton_row", 100, sample=i, throttle_mask=mask, other_processes=count)
        for i, (mask, count) in enumerate(zip(masks, others, strict=True))
    ]
    got = one(of(*rows), "triton_row")
    assert (got["throttled_share"], got["contended_share"]) == (0.4, 0.2)


def test_throttled_samples_are_kept():
    rows = [row("triton_row", ns, throttle_mask=0x4) for ns in (100, 200)]
    assert one(of(*rows), "triton_row")["n_samples"] == 2


def run(raw_file: Path, out: Path) -> str:
    done = module("experiments.tidy", "--raw", raw_file, "--out", out)
    assert "Traceback" not in done.stdout
    return f"{done.returncode} {done.stdout}"


def test_the_command_names_what_is_stale(tmp_path: Path):
    write_raw(raw(row("triton_row", kernel_sha256="c" * 64)), tmp_path / "raw.csv.gz")
    shown = run(tmp_path / "raw.csv.gz", tmp_path / "tidy" / "smoke.csv")
    assert shown == "0 stale, measured with earlier code: triton_row\n"
    assert len(pd.read_csv(tmp_path / "tidy" / "smoke.csv")) == 1


def test_a_cut_off_raw_file_is_named(tmp_path: Path):
    path = tmp_path / "raw.csv.gz"
    write_raw(raw(*blocks("triton_row", 100, 200)), path)
    path.write_bytes(path.read_bytes()[:-20])
    shown = run(path, tmp_path / "tidy.csv")
    assert shown.startswith(f"2 {path} is not a raw table of this project")


def test_a_raw_file_with_another_column_is_named(tmp_path: Path):
    path = tmp_path / "raw.csv.gz"
    write_raw(raw(row("triton_row")).assign(luck=1), path)
    shown = run(path, tmp_path / "tidy.csv")
    assert shown.startswith(f"2 {path} is not a raw table")
    assert "luck" in shown


def test_a_damaged_raw_file_is_named(tmp_path: Path):
    path = tmp_path / "raw.csv.gz"
    write_raw(raw(*blocks("triton_row", 100, 200)), path)
    content = bytearray(path.read_bytes())
    content[20:40] = b"\xff" * 20
    path.write_bytes(content)
    assert run(path, tmp_path / "tidy.csv").startswith(f"2 {path} is not a raw table")
