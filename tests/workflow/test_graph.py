"""The drawing of the workflow: the same whatever numbers Snakemake gives its rules."""

import pytest

from workflow.graph import BadGraph, flow_chart

DRAWN = """---
title: DAG
---
flowchart TB
\tid0[all]
\tid1[tidy]
\tid2[ingest]
\tstyle id0 fill:#D96357,stroke-width:2px,color:#333333
\tid2 --> id1
\tid1 --> id0
"""


def test_lines_are_sorted_however_many_there_are():
    names = "hgfedcba"
    nodes = "\n".join(f"\tid{i}[{name}]" for i, name in enumerate(names))
    edges = "\n".join(f"\tid{i} --> id{i + 1}" for i in range(len(names) - 1))
    lines = flow_chart(f"{nodes}\n{edges}").splitlines()[2:-1]
    assert lines == [f"    {a} --> {b}" for a, b in zip("bcdefgh", "abcdefg", strict=True)]


def test_it_names_rules_in_a_fixed_order():
    expected = "```mermaid\nflowchart LR\n    ingest --> tidy\n    tidy --> all\n```"
    assert flow_chart(DRAWN) == expected
    lines = DRAWN.splitlines()
    turned = "\n".join([*lines[:7], *reversed(lines[7:])])
    other = turned.replace("id0", "id9").replace("id2", "id0")
    assert flow_chart(other) == expected


@pytest.mark.parametrize("drawn", ["", "digraph snakemake_dag {}"])
def test_another_drawing_is_refused(drawn: str):
    with pytest.raises(BadGraph, match="snakemake drew no graph, but: "):
        flow_chart(drawn)
