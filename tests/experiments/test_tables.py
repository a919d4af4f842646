"""RAW takes what a block writes and nothing else; files hold what was written."""

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.tables import RAW, BadTable, gbps, read_raw, useful_bytes, validated, write_raw
from tests.experiments.raw import raw, row, stopped


def test_good_rows_are_accepted():
    table = raw(row("torch_eager"), stopped("triton_row", "skipped", "needs a CUDA GPU"))
    assert list(table["status"]) == ["ok", "skipped"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "fine"),
        ("time_ns", -1.0),
        ("time_ns", 0.0),
        ("time_ns", "soon"),
        ("timer", "clock"),
        ("l2", "warm"),
        ("dtype", "float64"),
        ("framework", "jax"),
        ("rows", 0),
        ("block", -1),
        ("schema_version", 1),
        ("kernel_sha256", "a" * 63),
        ("env_sha256", "unknown"),
        ("variant", None),
    ],
)
def test_a_bad_value_is_rejected_with_its_column(column: str, value: Any):
    with pytest.raises(BadTable, match=column):
        raw({**row("torch_eager"), column: value})


@pytest.mark.parametrize("column", list(RAW.columns))
def test_a_missing_column_is_rejected_by_name(column: str):
    table = raw(row("torch_eager")).drop(columns=column)
    with pytest.raises(BadTable, match=column):
        validated(RAW, table)


def test_an_unknown_column_is_rejected_by_name():
    with pytest.raises(BadTable, match="luck"):
        validated(RAW, raw(row("torch_eager")).assign(luck=1))


def test_columns_in_another_order_are_rejected():
    table = raw(row("torch_eager"))
    with pytest.raises(BadTable, match="another order"):
        validated(RAW, table[list(table.columns[::-1])])


def test_a_sample_without_its_time_is_rejected():
    with pytest.raises(BadTable):
        raw(row("torch_eager", float("nan")))


def test_a_file_gives_back_its_rows_and_the_same_bytes(tmp_path: Path):
    table = raw(row("torch_eager", 1234.5678901234), stopped("torch_naive", "wrong", "off, by 1"))
    one, two = tmp_path / "one.csv.gz", tmp_path / "two.csv.gz"
    write_raw(table, one)
    write_raw(read_raw(one), two)
    pd.testing.assert_frame_equal(read_raw(one), table)
    assert gzip.decompress(one.read_bytes()) == gzip.decompress(two.read_bytes())
    write_raw(table, two)
    write_raw(table, one)
    assert gzip.decompress(one.read_bytes()) == gzip.decompress(two.read_bytes())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.csv.gz", "two.csv.gz"]


def test_bytes_and_bandwidth():
    # 4 x 1000 float32 read once and written once, in 2 microseconds.
    assert useful_bytes(4, 1000, "float32") == 32_000
    assert useful_bytes(4, 1000, "bfloat16") == 16_000
    # The four largest of each row and their columns, 4 + 8 or 2 + 8 bytes each, for the output.
    assert useful_bytes(4, 1000, "float32", "cuda_topk_4") == 16_000 + 4 * 4 * 12
    assert useful_bytes(4, 1000, "bfloat16", "torch_topk_4/again") == 8000 + 4 * 4 * 10
    assert useful_bytes(4, 1000, "float32", "copy") == useful_bytes(4, 1000, "float32", "gone")
    assert gbps(32_000, 2.0) == pytest.approx(16.0)
