"""Which shapes of the frontier's kernels may be fast, along rows: what tuning measures.

Some forms are left out that were never fastest on an H200, in its tables or among the 22,513
candidates kept beside them: grids of 1,024 threads, staged rows in 2 or 8 blocks, chunks of 256 and
512 vectors, clusters of 2 blocks for few rows and of 1,024 threads for more.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from kernels.frontier.plans import (
    LINE,
    VECTOR_BYTES,
    Shape,
    staged_bytes,
    staged_vectors,
    vectors_from_line,
)
from kernels.frontier.select import FEW, MANY, Request

REGISTERS, THREADS, BLOCKS = 65_536, 2048, 32  # of a multiprocessor
# Registers that a thread has beside its share of the row, and at least.
OVERHEAD, LEAN = 26, 14
MOST_HELD = 20  # vectors of a thread: more were never fastest, and take long to compile
# Of a block.
WARP_THREADS, BLOCK_THREADS = (32, 64, 128, 256), (32, 64, 128, 256, 512, 1024)
WARP_TOGETHER = (1, 2)
# Up to so many bytes, a warp's block may be over before the GPU has started the next early one.
LATE_BYTES = 2**13
EXCHANGING_TWICE = 128  # threads of a block: fewer than these were never fastest
CLUSTER_BLOCKS, CLUSTER_THREADS = (2, 4, 8, 16), (128, 256, 512, 1024)
GRID_THREADS, GRID_BLOCKS, GRID_SHARES = (256, 512), (1, 2, 3, 4), (1.0, 0.75, 0.5)
GRID_VECTORS = 4096  # of a row at least
COMING = (64, 96, 256)  # KB of chunks on their way to a multiprocessor; the last is any ring
CHUNKS = (
    *((1024, 13, 8, 8, 2, ahead) for ahead in (1, 2, 3)),
    *((1024, 13, 8, 16, 2, ahead) for ahead in (1, 2, 4)),
    *((2048, 6, 8, 16, 1, ahead) for ahead in (1, 2)),
)
# More of a row on chip, for rows of which all rings hold one or two.
DEEP_CHUNKS = ((1024, 13, 4, 16, 2, 6), (2048, 6, 4, 16, 1, 3))
DEEP_VECTORS = 2**18
STAGED_BLOCKS, STAGED_THREADS, STAGED_LEAST_ROWS = (1, 4, 16), (128, 256, 512), 32
STAGED_HELD = (2, 17)  # vectors of a thread, of many rows
STAGED_REGISTERS = (32, 40)  # of a thread, so that it has no or few spills
# Bytes: of a multiprocessor, and what a block takes of it beside its share (the GPU's 1 KB, pairs).
SHARED, BLOCK_SHARED = 228 * 1024, 2048
# Small tickets, so that few rows find many multiprocessors.
SMALL_CHUNKS = ((2048, 6, 4, 16, 1, 1),)


def candidates(request: Request) -> Iterator[Shape]:
    """What may be fast for ``request``."""
    rows, cols, size, edges = request.rows, request.cols, request.size, request.edges
    vectors, width = vectors_from_line(cols, size, edges), VECTOR_BYTES // size
    whole = max(1, cols * size // VECTOR_BYTES)
    for lanes in (1, 2, 4, 8, 16, 32):
        if lanes <= whole <= lanes * 32 // width:
            yield from _warps(request, lanes, -(-whole // lanes))
    if edges and cols <= 600:
        for lanes in (8, 16, 32):
            if cols <= 20 * lanes:
                yield from (Shape("tile", (lanes, threads)) for threads in (64, 128))
    for threads in BLOCK_THREADS:
        twice = rows > FEW and threads >= EXCHANGING_TWICE
        for exchanges in (1, 2)[: 1 + twice]:
            shape = Shape("block", (threads,), exchanges=exchanges)
            yield from _held(shape, request, vectors, 255)
    for blocks, threads in product(CLUSTER_BLOCKS, CLUSTER_THREADS):
        if _worth(blocks, threads, request):
            yield from _held(Shape("cluster", (threads, blocks)), request, vectors, 128)
    if rows >= STAGED_LEAST_ROWS:
        yield from _staged(request)
    if rows <= FEW and vectors >= GRID_VECTORS:
        yield from _in_one_grid(request, vectors, width)
    if vectors >= 4096:
        more = DEEP_CHUNKS if vectors >= DEEP_VECTORS else ()
        more += SMALL_CHUNKS if rows < MANY else ()
        for sizes in (*CHUNKS, *more):
            room = (kilobytes * 1024 // (sizes[0] * VECTOR_BYTES) for kilobytes in COMING)
            for coming in sorted({min(sizes[1], max(sizes[4], each)) for each in room}):
                yield Shape("chunks", (*sizes, coming))


def _warps(request: Request, lanes: int, held: int) -> Iterator[Shape]:
    """Groups of ``lanes``, each with ``held`` vectors of a row or two."""
    most = 32 * request.size // VECTOR_BYTES
    for threads, together in product(WARP_THREADS, WARP_TOGETHER):
        if together == 1 or (together * held <= 2 * most and request.rows > FEW):
            shape = Shape("warp", (lanes, threads), together=together)
            yield shape
            small = threads * together * held * VECTOR_BYTES <= LATE_BYTES
            if small and request.rows == MANY:
                yield replace(shape, early=False)


def _worth(blocks: int, threads: int, request: Request) -> bool:
    """Whether clusters of ``blocks`` of ``threads`` were ever fastest of so many plain rows."""
    if request.rows <= FEW:
        return blocks > 2
    return threads < 1024 or bool(request.operator)


def _held(shape: Shape, request: Request, vectors: int, most: int) -> Iterator[Shape]:
    """Blocks of ``shape`` by how many a multiprocessor has at least, rows as they came or not.

    A thread has at most ``most`` registers, and a vector at least, or every second one has.
    """
    threads, parts, width = shape.sizes[0], (*shape.sizes, 1)[1], VECTOR_BYTES // request.size
    held = -(-vectors // (threads * parts))
    for raw in (False, True)[: width // 4]:
        registers = OVERHEAD + held * (4 if raw else width)
        enough = registers <= min(most, REGISTERS // threads + 16)
        if vectors >= threads * parts // 2 and held <= MOST_HELD and enough:
            fit = max(1, min(THREADS // threads, REGISTERS // (threads * registers), BLOCKS))
            other = 1 if request.rows <= FEW else max(1, fit - 1)
            # All threads that a multiprocessor has, where they have room for the row.
            full = THREADS // threads
            lean = held * (4 if raw else width) + LEAN <= REGISTERS // THREADS and full <= BLOCKS
            for least in sorted({other, fit, *[full] * lean}):
                yield replace(shape, sizes=(*shape.sizes, least), raw=raw)


def _staged(request: Request) -> Iterator[Shape]:
    """Rows in shared memory: as many blocks of a multiprocessor as it has room for."""
    found: dict[Shape, None] = {}
    for blocks, threads in product(STAGED_BLOCKS, STAGED_THREADS):
        shape = Shape("staged", (threads, blocks, 1))
        arguments = request.cols, request.size, request.edges
        held = staged_vectors(shape, *arguments) / threads
        fit = min(
            SHARED // (staged_bytes(shape, *arguments) + BLOCK_SHARED), THREADS // threads, BLOCKS
        )
        if fit and STAGED_HELD[0] <= held <= STAGED_HELD[1]:
            for registers in STAGED_REGISTERS:
                least = min(fit, REGISTERS // (threads * registers))
                found[replace(shape, sizes=(threads, blocks, least))] = None
    yield from found


def _in_one_grid(request: Request, vectors: int, width: int) -> Iterator[Shape]:
    """Rows of ``vectors`` over so many blocks that a multiprocessor has a few, or fewer."""
    room = (
        (least, int(request.multiprocessors * least * share) // request.rows)
        for least, share in product(GRID_BLOCKS, GRID_SHARES)
    )
    for least, parts in dict.fromkeys(room):
        if parts < 2:
            continue
        share = -(-vectors // (parts * LINE)) * LINE
        for threads in GRID_THREADS:
            held, raw = -(-share // threads), width == 8
            registers = OVERHEAD + held * 4
            fits = registers <= REGISTERS // (threads * least) and threads * least <= THREADS
            if fits and share >= threads // 2:
                yield Shape("grid", (threads, parts, least), raw)
