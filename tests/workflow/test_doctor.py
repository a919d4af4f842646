"""`make doctor`: what it says of machines, old and new, before and after the installation."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT, module
from workflow import checkup, doctor, machine
from workflow.checkup import NOTE, OK, STOP, Finding
from workflow.machine import Gpu

H200 = Gpu("NVIDIA H200", "580.159.04")
H100 = "NVIDIA H100 80GB HBM3"


def levels(findings: object) -> list[str]:
    return [finding.level for finding in findings]  # type: ignore[attr-defined]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package is installed."""
    monkeypatch.setattr(machine, "installed", lambda _: None)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every package is installed as pinned, and PyTorch finds the GPU."""
    monkeypatch.setattr(machine, "installed", lambda name: machine.pins()[name])
    monkeypatch.setattr("experiments.hardware.unfit", lambda: "")
    monkeypatch.setattr("experiments.hardware.torch_cuda", lambda: "13.0")
    monkeypatch.setattr(machine, "compiler", lambda: "/usr/bin/gcc")
    monkeypatch.setattr(machine, "has_python_headers", lambda: True)


def test_it_runs_here():
    done = module("workflow.doctor")
    told(done.returncode, done.stdout)


def told(status: int, text: str) -> None:
    """It ends with what make would do here; a test machine may have a GPU and no compiler."""
    assert status == ("make stops here" in text), text
    assert status or "make (or snakemake --cores 1)" in text
    assert "Traceback" not in text


def test_it_needs_no_package():
    command = [sys.executable, "-S", "-m", "workflow.doctor"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    told(done.returncode, done.stdout + done.stderr)
    assert "the environment is not installed" in done.stdout


@pytest.mark.usefixtures("bare")
def test_an_environment_of_another_python_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(checkup, "ROOT", tmp_path)
    (none,) = checkup.packages("base")
    assert "the environment is not installed for" in none.text
    (venv := tmp_path / ".venv").mkdir()
    (venv / "pyvenv.cfg").touch()
    (other,) = checkup.packages("base")
    assert other.level == NOTE
    assert f"{venv} is of another Python than {sys.executable}" in other.text
    monkeypatch.setattr(sys, "executable", str(venv / "bin" / "python"))
    (mine,) = checkup.packages("base")
    assert "the environment is not installed for" in mine.text


def test_an_old_python_can_read_why_it_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ast.parse(Path(doctor.__file__).read_text(), feature_version=(3, 5))
    monkeypatch.setattr(sys, "version_info", (3, 8, 10))
    assert doctor.main() == 1
    assert "Python 3.8.10 is too old: 3.11 or 3.12 is needed" in capsys.readouterr().out


def test_another_system_stops_a_run(monkeypatch: pytest.MonkeyPatch):
    assert checkup.system().level == OK
    monkeypatch.setattr(sys, "platform", "darwin")
    assert checkup.system().level == STOP
    assert STOP in levels(checkup.findings(None))


def test_a_newer_python_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 13, 1))
    assert checkup.python().level == NOTE


def test_a_folder_that_is_read_only_stops_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert checkup.disk(tmp_path, []) == Finding(
        STOP, f"{tmp_path} cannot be written to: copy the checkout elsewhere"
    )


@pytest.mark.parametrize(
    ("gone", "free", "level"),
    [([], 1.5, OK), ([], 0.5, STOP), (["numpy"], 2.5, STOP), (["numpy"], 3.5, OK),
     (["torch"], 6.5, STOP)],
)  # fmt: skip
def test_the_room_that_an_installation_takes(
    gone: list[str], free: float, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda _: (0, 0, 0))
    usage = type("Usage", (), {"free": free * 1e9})
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda _: usage)
    assert checkup.disk(tmp_path, gone).level == level


@pytest.mark.usefixtures("bare")
def test_what_is_not_installed_is_no_fault():
    (finding,) = checkup.packages("base")
    assert finding.level == NOTE
    assert "make installs" in finding.text


@pytest.mark.usefixtures("whole")
def test_versions_are_compared_with_the_pins(monkeypatch: pytest.MonkeyPatch):
    assert levels(checkup.packages("gpu")) == [OK]
    found = {**machine.pins(), "numpy": "2.0.0"}
    monkeypatch.setattr(machine, "installed", found.get)
    (finding,) = checkup.packages("gpu")
    assert f"numpy 2.0.0 for {machine.pins()['numpy']}" in finding.text
    del found["seaborn"]
    assert "not installed: seaborn" in next(checkup.packages("gpu")).text


def test_a_package_is_found_here():
    assert machine.installed("numpy") == machine.pins()["numpy"]
    assert machine.installed("no-such-package") is None
    assert {"torch", "snakemake", "cuda-core"} <= set(machine.group("gpu"))


@pytest.mark.parametrize(
    ("gpu", "level", "text"),
    [
        (None, NOTE, "no NVIDIA GPU"),
        (H200, OK, "NVIDIA H200, driver 580.159.04"),
        (Gpu("NVIDIA A100", "570.1"), STOP, "has driver 570.1, and CUDA 13.0 needs 580"),
    ],
)
def test_the_driver(gpu: Gpu | None, level: str, text: str):
    finding = checkup.graphics(gpu)
    assert finding.level == level
    assert text in finding.text


@pytest.mark.usefixtures("whole")
def test_a_gpu_that_is_ready_and_what_may_be_missing(monkeypatch: pytest.MonkeyPatch):
    assert levels(checkup.of_gpu(H200)) == [OK, OK]
    assert levels(checkup.of_gpu(Gpu(H200.name, H200.driver, others=2))) == [NOTE, OK, OK]
    monkeypatch.setattr("experiments.hardware.unfit", lambda: "a CPU build")
    assert Finding(STOP, "a CPU build") in list(checkup.of_gpu(H200))
    monkeypatch.setattr(machine, "has_python_headers", lambda: False)
    assert "no Python.h" in list(checkup.of_gpu(H200))[-1].text
    monkeypatch.setattr(machine, "compiler", lambda: None)
    assert "no C compiler" in list(checkup.of_gpu(H200))[-1].text


def test_which_runs_are_recorded():
    for name in (H200.name, H100):
        assert checkup.archived(Gpu(name, "580")).level == OK
    other = checkup.archived(Gpu("NVIDIA A100", "580"))
    assert other.level == NOTE
    assert "recorded: nvidia-h100-80gb-hbm3, nvidia-h200)" in other.text


def test_an_archive_without_a_sweep_is_no_recorded_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkup, "ARCHIVES", tmp_path)
    for name, holds in (("nvidia-a100", "family"), ("nvidia-h200", "raw")):
        (tmp_path / name / holds).mkdir(parents=True)
        (tmp_path / name / "SHA256SUMS").touch()
    assert checkup.recorded() == ["nvidia-h200"]


def test_what_is_to_be_expected():
    assert "draws the run recorded on nvidia-h200" in checkup.outlook(None)
    for name, other in (("nvidia-h200", "NVIDIA A100"), ("nvidia-h100-80gb-hbm3", H100)):
        minutes = f"{checkup.full_run(checkup.ARCHIVES / name):.0f} minutes on {name}"
        assert minutes in checkup.outlook(Gpu(other, "580"))
    assert "minutes on nvidia-h200" in checkup.outlook(H200)


def test_an_archive_without_all_sweeps_tells_no_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("nvidia-h200", "nvidia-h100-80gb-hbm3"):
        times = Path(name, "benchmarks")
        shutil.copytree(checkup.ARCHIVES / times, tmp_path / times)
    (tmp_path / times / "tutorial_cols.tsv").unlink()
    monkeypatch.setattr(checkup, "ARCHIVES", tmp_path)
    assert "minutes on nvidia-h200" in checkup.outlook(Gpu(H100, "580"))


def test_without_an_archive_there_is_nothing_to_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkup, "ARCHIVES", tmp_path)
    assert "nothing to draw" in checkup.outlook(None)
    assert "minutes" not in checkup.outlook(H200)


def test_nvidia_smi_is_asked_where_nvml_cannot_be(tools: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.first_gpu() is None
    smi = tools / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\ncase "$1" in *name*) echo "NVIDIA H200, 580.1";; *) echo 4711;; esac\n'
    )
    smi.chmod(0o755)
    assert machine.first_gpu() == Gpu("NVIDIA H200", "580.1", 1)
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert machine.first_gpu() is None


def test_tools_that_watch_a_gpu(tools: Path):
    assert levels(checkup.tools(H200)) == [NOTE, NOTE]
    for name in ("ncu", "compute-sanitizer"):
        (tools / name).write_text("#!/bin/sh\necho Version 2025.3.1.0\n")
        (tools / name).chmod(0o755)
    said = [finding.text for finding in checkup.tools(H200)]
    assert said[0].startswith("Nsight Compute 2025.3.1.0: ")
    assert levels(checkup.tools(H200)) == [OK, OK]
    assert list(checkup.tools(None)) == []
