// split: a row shared among SPLITS blocks, which meet in global memory between two launches.
#pragma once
#include "online.cuh"
#include "vectors.cuh"

constexpr int SPLITS = 8;

// The columns [first, last) of one row that block (row, split) works on; last may be below first.
struct Share {
    int row, split, first, last;

    __device__ Share(int cols) : row(blockIdx.x / SPLITS), split(blockIdx.x % SPLITS) {
        int size = (cols + 4 * SPLITS - 1) / (4 * SPLITS) * 4; // whole vectors
        first = split * size;
        last = min(cols, first + size);
    }
};

// What the row's blocks have left, in one: every block comes to the same bits.
__device__ inline Partial whole(const Partial *parts, int row) {
    Partial all = EMPTY;
    for (int s = 0; s < SPLITS; ++s)
        all.merge(parts[row * SPLITS + s]);
    return all;
}
