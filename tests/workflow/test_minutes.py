"""Minutes of a recorded run, out of Snakemake's benchmark files."""

from pathlib import Path

import pytest

from workflow.minutes import BadBenchmark, full_run, minutes


def benchmark(folder: Path, name: str, text: str) -> None:
    (folder / "benchmarks").mkdir(exist_ok=True)
    (folder / "benchmarks" / f"{name}.tsv").write_text(text)


def test_minutes_and_their_sum(tmp_path: Path):
    assert full_run(tmp_path) == 0
    for name, seconds in (("prepare", 30), ("launch", 90), ("profile", 600), ("sanitizer", 60)):
        benchmark(tmp_path, name, f"s\th:m:s\n{seconds}.0\t0:01:00\n")
    assert minutes(tmp_path) == {"prepare": 0.5, "launch": 1.5, "profile": 10, "sanitizer": 1}
    assert full_run(tmp_path) == 2


@pytest.mark.parametrize("text", ["", "s\th:m:s\n", "seconds\n1\n", "s\nnever\n"])
def test_another_file_is_refused_by_name(text: str, tmp_path: Path):
    benchmark(tmp_path, "launch", text)
    with pytest.raises(BadBenchmark, match=r"launch\.tsv is no benchmark file of Snakemake"):
        minutes(tmp_path)
