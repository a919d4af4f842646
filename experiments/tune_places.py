"""At which numbers of rows and columns the frontier's kernels are tuned.

Imports no torch: the workflow reads the names of the parts.
"""

from itertools import product

from kernels.frontier.select import FEW, MANY

# Vocabularies in use, the last but one of a prime number of columns less one.
NAMED = (1000, 32_000, 50_256, 100_002, 128_256, 151_936, 201_088)
# Where a regime gives way to the next is found to within a third.
WIDTHS = tuple(
    sorted({base * 2**k for base in (32, 48) for k in range(16)} | {*NAMED, 2**20, 2**22})
)
FEW_ROWS = (1, 2, 4, 8, 16, 32, 64, FEW)
FEW_ROWS_WIDTHS = tuple(sorted({2**k for k in (10, 12, *range(14, 21))} | {201_088}))
# So many rows that some multiprocessors get one more than others.
BATCHES = (256, 512, 1024, 2048, 4096)
BATCH_WIDTHS = (1024, 2048, 4096, 8192, 16_384, 32_000, 32_768, 65_536)
LARGE_BATCHES, LARGE_BATCH_WIDTHS = (8192, 16_384), (1024, 2048)
# (rows, columns)
MEASURED = (
    *((MANY, w) for w in WIDTHS),
    *product(FEW_ROWS, FEW_ROWS_WIDTHS),
    *product(BATCHES, BATCH_WIDTHS),
    *product(LARGE_BATCHES, LARGE_BATCH_WIDTHS),
)
# By the name of a part: 0 are many.
NUMBERS = {"many": (0,), "few": FEW_ROWS, "batches": (*BATCHES, *LARGE_BATCHES)}
OPERATOR_WIDTHS = [2**k for k in range(6, 21)]
