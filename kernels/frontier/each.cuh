// each: one look at a part of a row by a block that chooses, vector by vector, and the largest
// value of what it saw.
#pragma once
#include "pick.cuh"

// ``visit(vector, column, mine)`` for vectors of a part of a row, N of a thread on their way at
// once, in all threads together, and ``visit_edge(value, column)`` where a thread has an element of
// the edges.
template <class T, int N = 4, class Visit, class Edge>
__device__ void each(const Row<T, 1> &in, int rank, int parts, Visit visit, Edge visit_edge) {
    Portion part(in, rank, parts);
    if (int j = in.edge(threadIdx.x); rank == 0 && j >= 0)
        visit_edge(static_cast<float>(in.row[j]), j);
    for (int first = part.start; first < part.last; first += THREADS * N) {
        uint4 raw[N];
        int at = first + static_cast<int>(threadIdx.x);
#pragma unroll
        for (int i = 0; i < N; ++i)
            raw[i] = at + THREADS * i < part.last ? in.load(at + THREADS * i) : nothing<T>();
#pragma unroll
        for (int i = 0; i < N; ++i, at += THREADS) {
            float v[WIDTH<T>];
            unpack<T>(raw[i], v);
            visit(v, in.head + at * WIDTH<T>, at >= part.first && at < part.last);
        }
    }
}

// The largest of all threads' values, ordered.
template <class T> __device__ unsigned largest_of_block(float most) {
    __shared__ unsigned of_warp[THREADS / 32];
    unsigned mine = max_over_warp(ordered<T>(most));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
        of_warp[warp] = mine;
    __syncthreads();
    return max_over_warp(lane < THREADS / 32 ? of_warp[lane] : 0);
}
