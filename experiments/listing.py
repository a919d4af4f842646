"""What an archive holds: its SHA256SUMS, as sha256sum writes and reads it."""

import gzip
import hashlib
import zlib
from pathlib import Path

SUMS = "SHA256SUMS"


class BadArchive(ValueError):
    """An archive is not what its SHA256SUMS says; the message names the file."""


def sums(folder: Path) -> dict[str, str]:
    """File name to SHA-256 as recorded in the archive ``folder``."""
    listing = folder / SUMS
    if not listing.exists():
        raise BadArchive(f"{folder} has no {SUMS}: check the archive out again")
    lines = listing.read_text(errors="replace").splitlines()
    pairs = [line.split("  ", 1) for line in lines if line]
    if not pairs or any(len(pair) != 2 or len(pair[0]) != 64 for pair in pairs):
        raise BadArchive(f"{listing} is malformed: expected lines of '<sha256>  <file>'")
    return {name: digest for digest, name in pairs}


def verify(folder: Path, name: str) -> Path:
    """The path of file ``name`` in the archive if its bytes are the recorded ones.

    Raises BadArchive naming the file that is missing, unlisted, different or truncated.
    """
    recorded, path = sums(folder), folder / name
    if name not in recorded:
        raise BadArchive(f"{path} is not listed in {folder / SUMS}")
    if not path.exists():
        raise BadArchive(f"{path} is missing, though {SUMS} lists it: check the archive out again")
    found = digest(path)
    if found != recorded[name]:
        raise BadArchive(
            f"{path} differs from what was recorded ({SUMS} has {recorded[name][:12]}…, the file "
            f"is {found[:12]}…): check the archive out again{_truncation(path)}"
        )
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _truncation(path: Path) -> str:
    if path.suffix == ".gz":
        try:
            gzip.decompress(path.read_bytes())
        except (EOFError, OSError, zlib.error):
            return " (its compressed data are cut off or damaged)"
    return ""


def verify_all(folder: Path) -> list[str]:
    """The names of all files in the archive; raises BadArchive where ``verify`` does."""
    names = sums(folder)
    found = (str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file())
    for name in {**names, **dict.fromkeys(name for name in found if name != SUMS)}:
        verify(folder, name)
    return list(names)
