"""No number of the post is typed: a digit stands in an expression, in code or in a name."""

import re
from collections.abc import Sequence

import pytest
import yaml

from paper.blog import contents
from tests.blog.source import FACTS, asked

EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
# An expression must not smuggle a number in: only these may hold one.
ARGUMENTS = re.compile(
    r'given\([a-z_.,:|"{}()\[0\] ]*\)|counted\("\w+", cols=\d+\)|erratum\("E\d\d"\)\[\d\]'
    r'|(?:verdict|fact|figure|verdicts)\("\w+"|(?:example|row)\[\d\]|\("E\d\d"(?:, "E\d\d")*\)'
)
# And of what given() takes only what needs no measurement, file by file.
GIVEN = {
    "10-question": ("512",),  # MiB of a tensor
    "25-maximum": ("89", "11.1"),  # logarithms of the largest numbers
    "40-naive": ("8,192", "5", "3", "2"),  # columns; passes of the table
    "45-fusion": ("8,192",),
    "50-paths": ("131,072", "1,024"),
    "55-ladder": ("512", "1,024", "14,080"),  # S4's threads, and its crossing
    "60-registers": (
        *(
            "4,096",
            "8,192",
            "32,768",
            "65,536",
        ),  # columns; the last is the registers there are, too
        *("255", "1,024", "64"),  # limits of the hardware
    ),
    "65-online": ("131,072",),
    "70-split": ("131,072",),
    "75-frontier": ("32", "1,024", "131,072", "1,048,576", "4,194,304", "64"),  # columns; rows
    "80-profiler": ("100%",),  # of the occupancy there can be
    "85-numerics": ("8,192",),
}
LITERAL = re.compile(r'given\("?([\d.,%]+)"?\)')
ALT = re.compile(r'alt="([^"]*)"')
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# Code with a letter in it is a name or a command; `0.98` alone is a number.
CODE = re.compile(r"`[^`\n]*[A-Za-z][^`\n]*`")
TAG = re.compile(r"<[^>]+>")
ADDRESS = re.compile(r"\]\(https://[^)\s]+\)")  # of a link
NAMES = re.compile(
    r"\bS[1-5]\b|\b(?:b?float|exp|fp)\d+\b|\bsm_\d+\b|\b[AH][12]00\b|\bL[12]\b|\bE\d\d\b|\bC\d\d\b"
    r"|\b32-bit\b"
)


def typed(text: str, given: Sequence[str] = ()) -> list[str]:
    """The lines of ``text``, a file of the post that may state ``given``, with a typed number."""
    text = LITERAL.sub(lambda m: "given()" if m[1] in given else m[0], text)
    # A figure's alternative text is a sentence, for all that it stands in an expression.
    alts = "\n".join(ALT.findall(text))
    text = ADDRESS.sub("]", FENCE.sub("", text))
    expressions = "\n".join(EXPRESSION.findall(text))
    smuggled = ALT.sub("", ARGUMENTS.sub("", expressions))
    prose = TAG.sub("", CODE.sub("", EXPRESSION.sub("", text))) + "\n" + alts
    lines = NAMES.sub("", prose).splitlines() + NAMES.sub("", smuggled).splitlines()
    return [line.strip() for line in lines if re.search(r"\d", line)]


@pytest.mark.parametrize("path", contents.files(), ids=lambda p: p.name)
def test_no_number_is_typed(path):
    text, given = path.read_text(), GIVEN.get(path.stem, ())
    assert typed(text, given) == []
    assert set(given) <= set(LITERAL.findall(text))  # what is not stated any more goes


@pytest.mark.parametrize(
    "text",
    [
        "It is 1.3 times as fast.",
        "It reaches `0.98` of copy.",
        'It reaches {{ fact("x") }} of 4,143 GB/s.',
        "It reaches {{ '0.98' }}.",
        '{% call figure("x", alt="at 0.98 of copy") %}words{% endcall %}',
        '{% call figure("x", alt="words") %}0.98 of copy{% endcall %}',
        "{% set speed = 1.3 %}",
        'It reaches {{ given("0.98") }} of copy.',
        "It has {{ given(128) }} threads.",
    ],
)
def test_a_typed_number_is_found(text: str):
    assert typed(text)


@pytest.mark.parametrize(
    "text",
    [
        'S1 in float16: {{ fact("x_1") }} at {{ given("8,192") }}, '
        '{{ counted("a", cols=8192).traffic }}',
        '{{ given(example[0].values | length) }} of {{ given("{:,}".format(ladder_rows)) }}',
        "```sh\npython --cols 32000\n```",
        '`triton_tiled_1024` for sm_80, {{ erratum("E01")[2] }} and {{ example[1].total }}',
    ],
)
def test_names_and_expressions_may_hold_digits(text: str):
    assert typed(text, ("8,192",)) == []


def test_facts_are_those_that_the_text_asks_for():
    assert sorted(set(asked())) == sorted(yaml.safe_load(FACTS.read_text()))
