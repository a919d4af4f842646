"""What logs of Compute Sanitizer say, as its documentation and its users print them."""

from itertools import pairwise
from pathlib import Path

import pytest

from experiments.sanitizer import FILTERS, TOOLS, BadLog, Counts, command, read

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_HAZARDS = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
OUTSIDE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at softmax<(Fault)0>(float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x87654320 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x710fdc800000 of size 256 bytes
=========
========= ERROR SUMMARY: 1,064 errors
========= ERROR SUMMARY: 1044 errors were not printed. Use --print-limit option to adjust it
"""
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at softmax<(Fault)1>(float *)+0x90
=========     and Read access at softmax<(Fault)1>(float *)+0x100 [508 hazards]
=========
========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)
"""
BARRIER = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Invalid arguments
=========     at softmax<(Fault)2>(float *)+0xf0
=========     by thread (16,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
WARNED = "========= Warning: Race reported between Read access at softmax<float>+0x10\n"
FIRST = "Error: Race reported between Write access at softmax<(Fault)1>(float *)+0x90"


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        ("memcheck", CLEAN, Counts(0)),
        ("racecheck", NO_HAZARDS, Counts(0)),
        ("memcheck", OUTSIDE, Counts(1064, 0, "Invalid __global__ write of size 4 bytes")),
        ("racecheck", RACE, Counts(1, 2, FIRST)),
        ("racecheck", WARNED + RACE, Counts(1, 2, WARNED.strip("= \n"))),
        ("synccheck", BARRIER, Counts(1, 0, "Barrier error detected. Invalid arguments")),
    ],
)
def test_the_summary_counts(tool: str, text: str, expected: Counts):
    assert read(tool, text) == expected


@pytest.mark.parametrize(
    ("tool", "text", "why"),
    [
        ("memcheck", "", "without a summary, with: nothing"),
        ("memcheck", "unrecognised option '--kernel-name'\n", "with: unrecognised option"),
        ("racecheck", CLEAN, "without a summary, with: ERROR SUMMARY: 0 errors"),
        ("memcheck", OUTSIDE.splitlines()[-1], "1044 errors were not printed"),
        (
            "racecheck",
            "========= Warning: Detected overflow of tracked cuda::barrier structures. Results "
            f"might be incorrect. Try using --num-cuda-barriers to fix the issue\n{NO_HAZARDS}",
            "Detected overflow",
        ),
        ("memcheck", f"========= Internal Sanitizer Error: launching softmax\n{CLEAN}", "Internal"),
    ],
)
def test_a_log_that_does_not_speak_of_the_whole_run_is_refused(tool: str, text: str, why: str):
    with pytest.raises(BadLog, match=why):
        read(tool, text)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_program_comes_last_and_torchs_kernels_are_left_out(tool: str):
    words = command(tool, Path("log"), 50_000, ["python", "-m", "program", "--tool", "x"])
    assert words[words.index("--") + 1 :] == ["python", "-m", "program", "--tool", "x"]
    assert words[words.index("--tool") + 1] == tool
    told = [word for before, word in pairwise(words) if before == "--kernel-name"]
    assert told == list(FILTERS)
    assert {"kns=_Z7softmax", "kns=_Z15softmax_columns", "kns=_Z6chosen"} <= set(told)
