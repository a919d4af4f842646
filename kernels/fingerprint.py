"""A variant's fingerprint: its code without comments and layout.

Measurements carry it, so that a table knows which of its rows an edit has made stale
and a reworded comment makes none so.
"""

import ast
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

from kernels.frontier.plans import REGIMES
from kernels.registry import BY_NAME, Launch, Variant

_C_TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
_C_INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.MULTILINE)


def variant_sha256(variant: Variant) -> str:
    """SHA-256 (hex) of the variant's code, options and launch policy."""
    code = _cuda(variant.path) if variant.path.suffix == ".cu" else _python(variant.path)
    if variant.framework == "frontier":
        # Nothing else in the folder is what this variant's sweeps time.
        code += "".join(_cuda(variant.path.with_name(f"{r}.cu")) for r in sorted(REGIMES))
    if "frontier" in variant.name:  # it selects by what was measured
        code += "".join(p.read_text() for p in sorted(variant.path.parent.glob("tables/*.json")))
    told = "".join(f"{name}={value}\n" for name, value in variant.options)
    return hashlib.sha256(f"{code}\n{told}{_policy(variant.launch)}".encode()).hexdigest()


@cache
def sha256_now(name: str) -> str:
    """The same of the registered variant ``name``, looked at once; empty if there is none."""
    return variant_sha256(BY_NAME[name]) if name in BY_NAME else ""


def _policy(launch: Launch | None) -> str:
    """The fields that say something: one added later, at its default, changes no fingerprint."""
    if launch is None:
        return ""
    told = {f.name: getattr(launch, f.name) for f in fields(launch)}
    return repr({f.name: told[f.name] for f in fields(launch) if told[f.name] != f.default})


def cuda_sources(path: Path) -> list[Path]:
    """``path`` and every header that it includes by quotes, each once, in order of use."""
    found = [path]
    for source in found:
        for name in _C_INCLUDE.findall(source.read_text()):
            header = path.parent / name
            if header not in found:
                found.append(header)
    return found


def _cuda(path: Path) -> str:
    # It imports this module.
    from kernels.frontier.compiler import DEFINES

    asked = os.environ.get(DEFINES, "").split()
    return _condensed(tuple(source.read_text() for source in cuda_sources(path)), tuple(asked))


def python_sources(path: Path) -> list[Path]:
    """``path`` and every kernel file that it imports from, each once, in order of use."""
    found = [path]
    for source in found:
        found += [file for file in _imported(source) if file not in found]
    return found


def _imported(path: Path) -> Iterator[Path]:
    """The files of kernels/*/ that ``path``, one of them, names in its imports, each once."""
    package = ("kernels", path.parent.name)
    named = _names(path.read_text())
    names = [package[: 3 - level] + name if level else name for level, name in named]
    files = (path.parents[1] / "/".join(name[1:]) for name in names if name[:1] == ("kernels",))
    for file in dict.fromkeys(file.with_suffix(".py") for file in files):
        if file.parents[1] == path.parents[1] and file.is_file():
            yield file


def _python(path: Path) -> str:
    return "\n".join(_unparsed(file.read_text()) for file in python_sources(path))


# Variants share files, and tables name a variant in many rows: each text is read through once.


@cache
def _condensed(sources: tuple[str, ...], asked: tuple[str, ...]) -> str:
    """C++ without comments and layout, with a line for each word ``asked`` for that it has."""

    def keep_strings(match: re.Match[str]) -> str:
        return " " if match[0].startswith("/") else match[0]

    lines: list[str] = []
    for source in sources:
        lines += _C_TOKENS.sub(keep_strings, source).splitlines()
    # What a tool has defined beside a kernel makes another one of it.
    lines[:0] = [f"#define {word}" for word in asked if any(word in line for line in lines)]
    # A directive ends with its line; elsewhere only the spaces between two words mean anything.
    directives = [" ".join(line.split()) for line in lines if line.lstrip().startswith("#")]
    code = " ".join(line for line in lines if not line.lstrip().startswith("#"))
    return "\n".join([*directives, re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(code.split()))])


@cache
def _names(code: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """What ``code`` imports: how many packages up it looks, and the parts of the dotted name."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for node in ast.walk(_tree(code) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            found += [(0, tuple(alias.name.split("."))) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            # What is imported is a name of the module, or itself a module of the folder.
            found += [(node.level, module)]
            found += [(node.level, (*module, alias.name)) for alias in node.names]
    return tuple(found)


@cache
def _unparsed(code: str) -> str:
    tree = _tree(code)
    # The build names a file that does not parse; until it is mended every byte counts.
    return ast.unparse(tree) if tree else code


@cache
def _tree(code: str) -> ast.Module | None:
    """The code that is timed, without docstrings; None where it does not parse."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    # What the ahead-of-time build is asked to compile changes nothing that is timed.
    tree.body = [n for n in tree.body if getattr(n, "name", "") != "specialisations"]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            body[:1] = [] if body[1:] else [ast.Pass()]
    return _QuotedOnce().visit(tree)


class _QuotedOnce(ast.NodeTransformer):
    """Makes a name of every f-string: from Python 3.12 on ast.unparse quotes them otherwise."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Name:
        return ast.Name(f"f{self._text(node)!r}", ast.Load())

    def _text(self, node: ast.JoinedStr) -> str:
        return "".join(map(self._part, node.values))

    def _part(self, part: ast.expr) -> str:
        if not isinstance(part, ast.FormattedValue):
            return str(ast.literal_eval(part)).replace("{", "{{").replace("}", "}}")
        conversion = "" if part.conversion < 0 else f"!{chr(part.conversion)}"
        spec = f":{self._text(part.format_spec)}" if part.format_spec else ""  # pyright: ignore[reportArgumentType]
        return "{" + ast.unparse(self.visit(part.value)) + conversion + spec + "}"


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
