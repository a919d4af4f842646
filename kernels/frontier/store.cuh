// store: the vectors of a warp's lanes into a row, wherever it lies between its 16-byte boundaries.
//
// Where the output lies as the input does, a vector is stored whole.  Elsewhere each lane completes
// its vector with the last elements of its left neighbour's, which is then whole in the output;
// what has no neighbour in the warp goes element by element.
#pragma once
#include "reduce.cuh"

// Four words: the last ``by`` elements of ``left``, then the first of ``own``; ``by`` is not 0.
template <class T> __device__ uint4 shifted(uint4 left, uint4 own, int by) {
    unsigned w[8] = {left.x, left.y, left.z, left.w, own.x, own.y, own.z, own.w};
    int skipped = 16 - by * int(sizeof(T)); // bytes
    if (skipped & 8) {
#pragma unroll
        for (int i = 0; i < 6; ++i)
            w[i] = w[i + 2];
    }
    if (skipped & 4) {
#pragma unroll
        for (int i = 0; i < 5; ++i)
            w[i] = w[i + 1];
    }
    if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            w[i] = __funnelshift_r(w[i], w[i + 1], skipped % 4 * 8);
    }
    return {w[0], w[1], w[2], w[3]};
}

template <class T> __device__ T element(uint4 vector, int e) {
    unsigned w[4] = {vector.x, vector.y, vector.z, vector.w};
    if constexpr (sizeof(T) == 4)
        return bits<T>(w[e]);
    else
        return bits<T>(static_cast<unsigned short>(w[e / 2] >> e % 2 * 16));
}

__device__ inline uint4 from_left(uint4 v) {
    return {__shfl_up_sync(ALL_LANES, v.x, 1), __shfl_up_sync(ALL_LANES, v.y, 1),
            __shfl_up_sync(ALL_LANES, v.z, 1), __shfl_up_sync(ALL_LANES, v.w, 1)};
}

// Vector k of the row's results into the row at ``out``, if it is from ``first`` to before
// ``last``. All lanes of a warp come here; LANES neighbours hold vectors that are neighbours.
template <int LANES, class T, int EDGES>
__device__ void store(const Row<T, EDGES> &row, T *out, int k, int first, int last, uint4 vector) {
    T *at = out + row.head + k * WIDTH<T>;
    bool mine = k >= first && k < last;
    if constexpr (EDGES < 2) {
        if (mine)
            *reinterpret_cast<uint4 *>(at) = vector;
        return;
    }
    int lane = threadIdx.x % LANES, by = past_boundary(at);
    bool left = by == 0 || (lane > 0 && k > first), right = lane < LANES - 1 && k + 1 < last;
    uint4 before = from_left(vector);
    if (mine && left)
        *reinterpret_cast<uint4 *>(at - by) = by == 0 ? vector : shifted<T>(before, vector, by);
#pragma unroll
    for (int e = 0; e < WIDTH<T>; ++e)
        if (mine && !(e < WIDTH<T> - by ? left : right))
            at[e] = element<T>(vector, e);
}
