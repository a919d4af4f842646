"""One set of versions: constraints.txt, environment.yml and the groups of pyproject.toml agree."""

import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def pins(lines: list[str]) -> dict[str, str]:
    """Package to version; a line that is not ``name==version`` raises."""
    found: dict[str, str] = {}
    for line in lines:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        match [(s.operator, s.version) for s in requirement.specifier]:
            case [("==", version)] if "*" not in version and name not in found:
                found[name] = version
            case _:
                raise ValueError(f"expected one 'name==version' a package, found '{line}'")
    return found


def members(group: str) -> list[Requirement]:
    """The packages of a group, those of the groups that it includes among them."""
    found = []
    for entry in GROUPS[group]:
        if isinstance(entry, str):
            found.append(Requirement(entry))
        else:
            found += members(entry["include-group"])
    return found


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(r.name) for r in requirements}


def needed(roots: list[Requirement]) -> set[str]:
    """Everything that ``roots`` pull in, as far as it is installed here."""
    seen: set[tuple[str, str]] = set()
    queue = [(r, extra) for r in roots for extra in ("", *r.extras)]
    while queue:
        requirement, extra = queue.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            wanted = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for r in wanted:
            if r.marker is None or r.marker.evaluate({"extra": extra}):
                queue += [(r, e) for e in ("", *r.extras)]
    return {name for name, _ in seen}


CONSTRAINTS = pins(
    [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
)
(PIP_SECTION,) = (entry["pip"] for entry in ENVIRONMENT if isinstance(entry, dict))
CONDA = pins(PIP_SECTION)


@pytest.mark.parametrize("group", sorted(set(GROUPS) - {"peers"}))
def test_every_group_is_pinned_to_its_last_dependency(group: str):
    assert needed(members(group)) - set(CONSTRAINTS) == set()


def test_peers_are_pinned_where_they_are_named():
    peers = [str(r) for r in members("peers") if r not in members("gpu")]
    assert pins(peers)


def test_conda_pins_what_the_gpu_group_needs_and_nothing_else():
    only_tests = needed(members("test")) - needed(members("gpu"))
    assert CONDA.keys() == CONSTRAINTS.keys() - only_tests - {"pip"}
    assert names(members("gpu")) <= CONDA.keys()
    assert {name: CONSTRAINTS[name] for name in CONDA} == CONDA
    assert f"pip={CONSTRAINTS['pip']}" in ENVIRONMENT


def test_conda_asks_for_the_same_extras():
    wanted = {canonicalize_name(r.name): r.extras for r in members("gpu") if r.extras}
    listed = [Requirement(line) for line in PIP_SECTION]
    assert {canonicalize_name(r.name): r.extras for r in listed if r.extras} == wanted


@pytest.mark.parametrize("line", ["torch", "torch>=2.13.0", "torch==2.13.*", "torch>=2,<3"])
def test_a_loose_version_is_no_pin(line: str):
    with pytest.raises(ValueError, match="expected one 'name==version' a package"):
        pins([line])


def test_a_package_pinned_twice_is_refused():
    with pytest.raises(ValueError, match="found 'Torch==2'"):
        pins(["torch==1", "Torch==2"])
