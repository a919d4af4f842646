"""The rules of a run and what passes between them, as the flow chart that GitHub draws."""

import re
import subprocess
import sys

from workflow.machine import ROOT

COMMAND = ("--cores", "1", "--rulegraph", "mermaid-js", "--config", "source=archive")
NODE = re.compile(r"^\s*(id\d+)\[(\w+)\]$", re.MULTILINE)
EDGE = re.compile(r"^\s*(id\d+) --> (id\d+)$", re.MULTILINE)


class BadGraph(RuntimeError):
    """Snakemake drew no graph; the message has its last words."""


def rule_graph() -> str:
    """The graph of the run that draws the archive, as a fenced block of Markdown."""
    command = [sys.executable, "-m", "snakemake", *COMMAND]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise BadGraph(f"snakemake drew no graph: {done.stderr.strip().splitlines()[-1:]}")
    return flow_chart(done.stdout)


def flow_chart(drawn: str) -> str:
    """Snakemake's ``drawn`` chart by names, sorted, and in the reader's colours.

    Numbers, colours and the order of lines differ from one run of Snakemake to the next.
    """
    names = dict(NODE.findall(drawn))
    edges = {(names[start], names[end]) for start, end in EDGE.findall(drawn)}
    if not edges:
        raise BadGraph(f"snakemake drew no graph, but: {drawn.strip()[:200] or 'nothing'}")
    lines = [f"    {start} --> {end}" for start, end in sorted(edges)]
    return "\n".join(["```mermaid", "flowchart LR", *lines, "```"])
