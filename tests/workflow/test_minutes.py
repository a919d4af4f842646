"""Minutes of a recorded run, out of Snakemake's benchmark files."""

from pathlib import Path

import pytest

from workflow.minutes import BadBenchmark, full_run, minutes, times_all_of


def benchmark(folder: Path, name: str, text: str) -> None:
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / "benchmarks" / f"{name}.tsv").write_text(text)


def test_minutes_and_their_sum(tmp_path: Path):
    assert full_run(tmp_path) == 0
    for name, seconds in (("prepare", 30), ("launch", 90), ("profile", 600), ("sanitizer", 60)):
        benchmark(tmp_path, name, f"s\th:m:s\n{seconds}.0\t0:01:00\n")
    assert minutes(tmp_path) == {"prepare": 0.5, "launch": 1.5, "profile": 10, "sanitizer": 1}
    assert full_run(tmp_path) == 2


def test_a_part_of_the_sweeps_does_not_time_all(tmp_path: Path):
    part, whole = tmp_path / "part", tmp_path / "whole"
    for folder, names in ((part, ("prepare",)), (whole, ("prepare", "launch", "profile"))):
        folder.mkdir()
        assert not times_all_of(folder, whole)
        for name in names:
            benchmark(folder, name, "s\n60\n")
    assert not times_all_of(part, whole)
    benchmark(part, "launch", "s\n60\n")  # and not what is asked for by name
    assert times_all_of(part, whole)


@pytest.mark.parametrize("text", ["", "s\th:m:s\n", "seconds\n1\n", "s\nnever\n"])
def test_another_file_is_refused_by_name(text: str, tmp_path: Path):
    benchmark(tmp_path, "launch", text)
    with pytest.raises(BadBenchmark, match=r"launch\.tsv is no benchmark file of Snakemake"):
        minutes(tmp_path)
