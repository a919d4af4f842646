"""Which data a run shows, for every machine and every wish."""

from pathlib import Path

import pynvml
import pytest

from workflow import source
from workflow.source import BadConfig, Source, resolve

H200 = "NVIDIA H200"


@pytest.fixture(autouse=True)
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source, "ARCHIVES", tmp_path)
    for name in ("nvidia-h200", "nvidia-a100"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SHA256SUMS").touch()
    (tmp_path / "half-copied").mkdir()
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion", lambda: 13000)
    return tmp_path


def on(monkeypatch: pytest.MonkeyPatch, gpu: str | None, wanted: str, mode: str = "full") -> Source:
    monkeypatch.setattr(source, "gpu_name", lambda: gpu)
    return resolve({"source": wanted, "mode": mode, "seed": 1})


@pytest.mark.parametrize(
    ("gpu", "wanted", "mode", "name"),
    [
        (None, "auto", "full", "archive-nvidia-h200"),
        (None, "archive", "full", "archive-nvidia-h200"),
        (None, "archive-nvidia-a100", "full", "archive-nvidia-a100"),
        (H200, "auto", "full", "local-nvidia-h200"),
        (H200, "auto", "quick", "local-nvidia-h200-quick"),
        (H200, "local", "full", "local-nvidia-h200"),
        (H200, "archive", "full", "archive-nvidia-h200"),
        (H200, "archive-nvidia-a100", "full", "archive-nvidia-a100"),
    ],
)
def test_the_source_that_is_chosen(
    gpu: str | None, wanted: str, mode: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    chosen = on(monkeypatch, gpu, wanted, mode)
    assert chosen.name == name
    assert chosen.local == name.startswith("local-")


def test_a_local_run_is_packed_beside_the_other_archives(
    archives: Path, monkeypatch: pytest.MonkeyPatch
):
    assert on(monkeypatch, "NVIDIA GH200 480GB", "auto").archive == archives / "nvidia-gh200-480gb"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("local", "source=local needs an NVIDIA GPU"),
        ("archive-half-copied", "no archive of 'half-copied'; known: nvidia-a100, nvidia-h200$"),
        ("Archive", "unknown source 'Archive'; expected auto, local"),
    ],
)
def test_what_there_is_not_is_refused(wanted: str, message: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BadConfig, match=message):
        on(monkeypatch, None, wanted)


def test_an_old_driver_is_refused_where_it_would_be_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion", lambda: 12080)
    with pytest.raises(BadConfig, match=r"driver supports CUDA 12\.8, .* install driver 580"):
        on(monkeypatch, H200, "auto")
    assert not on(monkeypatch, H200, "archive").local


def test_without_any_archive_none_is_known(archives: Path, monkeypatch: pytest.MonkeyPatch):
    for listing in archives.glob("*/SHA256SUMS"):
        listing.unlink()
    with pytest.raises(BadConfig, match="no archive of 'nvidia-h200'; known: none"):
        on(monkeypatch, None, "auto")


def test_a_missing_key_is_refused():
    with pytest.raises(BadConfig, match="config: 'seed' is a required property"):
        resolve({"source": "auto", "mode": "full"})
