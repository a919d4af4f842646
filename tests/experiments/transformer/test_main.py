"""The whole of it on a CPU, as the workflow calls it."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from experiments.tables import validated
from experiments.transformer.plan import SMOKE
from experiments.transformer.summary import summary
from experiments.transformer.tables import DECODING, TRAINING
from tests.commands import module


def test_the_tiny_run_gives_both_tables_and_one_curve(tmp_path: Path):
    training, decoding = tmp_path / "made" / "training.csv", tmp_path / "made" / "decoding.csv"
    done = module(
        "experiments.transformer", "--device", "cpu", "--training", training,
        "--decoding", decoding,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    steps = validated(TRAINING, pd.read_csv(training))
    assert steps.groupby(["operators", "turned"]).size().to_dict() == {
        ("torch", False): SMOKE.steps, ("torch", True): SMOKE.steps, ("ours", False): SMOKE.steps,
    }  # fmt: skip
    found = summary(steps).set_index("operators")
    assert found.loc["ours", "distance"] < 1e-5
    times = validated(DECODING, pd.read_csv(decoding))
    assert set(times["batch"]) == set(SMOKE.batches)
    assert set(times["timer"]) == {"host"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path):
    out = ("--training", tmp_path / "t.csv", "--decoding", tmp_path / "d.csv")
    done = module("experiments.transformer", *out)
    assert done.returncode == 2
    assert done.stdout == "PyTorch finds no GPU here: use --device cpu for the tiny run\n"
    wrong = module("experiments.transformer", *out, "--device", "tpu")
    assert wrong.returncode == 2
    assert wrong.stdout == "device is cuda or cpu; got 'tpu'\n"
