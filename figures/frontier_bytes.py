"""Does the frontier move 2MN, and do those that it is compared with?

python -m figures.frontier_bytes profile.csv --hardware hardware.json --stem OUTDIR/frontier_bytes
"""

from experiments.counts import FRONTIER_NAMES, FRONTIER_POINTS
from figures import profiled
from figures.dram_bytes import WORDS, draw

ROWS = [[p for p in FRONTIER_POINTS if p.dtype == dtype] for dtype in ("float32", "bfloat16")]

if __name__ == "__main__":
    profiled.main(draw, WORDS, ROWS, FRONTIER_NAMES, tall=0.9)
