// load: vectors of a row, wherever it lies between its 16-byte boundaries.
//
// Where results lie as the input does, a vector is loaded whole.  Elsewhere vectors are cut where
// they are whole among the results: each is the end of one that lies whole in the input, which its
// lane loads, and the start of the next one, which the lane's right neighbour has loaded.
#pragma once
#include "reduce.cuh"

// Four words of the eight of ``left`` and ``right``, from byte ``skipped`` (below 16) on.
template <class T> __device__ uint4 shifted(uint4 left, uint4 right, int skipped) {
    unsigned w[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
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

// Each lane's is its right neighbour's; the last of LANES has the first one's.
template <int LANES> __device__ uint4 from_right(uint4 v) {
    int from = threadIdx.x % LANES + 1;
    return {__shfl_sync(ALL_LANES, v.x, from, LANES), __shfl_sync(ALL_LANES, v.y, from, LANES),
            __shfl_sync(ALL_LANES, v.z, from, LANES), __shfl_sync(ALL_LANES, v.w, from, LANES)};
}

// Which vectors a thread of a block takes, N of them: thread, thread + STEP, ...  With EDGES 2 a
// warp's lie side by side, so that only its last lane has no neighbour, and only at the end.
template <int EDGES, int THREADS, int N> struct Share {
    static constexpr int STEP = EDGES == 2 ? 32 : THREADS;

    static __device__ int thread() {
        int t = threadIdx.x;
        return EDGES == 2 ? t / 32 * 32 * N + t % 32 : t;
    }
};

constexpr int ALL = 0x7fffffff; // of a row's vectors

// Vectors start, start + STEP, ... of the row, from 0 to before ``last``; -inf elsewhere.  All
// lanes of a warp come here; with EDGES 2 those of LANES neighbours are neighbours, and STEP is
// LANES.
template <int LANES, int STEP, class T, int EDGES, int N>
__device__ void load(const Row<T, EDGES> &row, int start, uint4 (&raw)[N], int last = ALL) {
    if constexpr (EDGES < 2) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            int k = start + STEP * i;
            raw[i] = last == ALL || k < last ? row.load(k) : nothing<T>();
        }
        return;
    }
    static_assert(EDGES < 2 || STEP == LANES);
    last = min(last, row.vectors);
    int whole = last + (row.past > 0 && last > 0), lane = threadIdx.x % LANES;
    auto between_boundaries = [&](int i) {
        return unsigned(i) < unsigned(whole) ? row.body()[i] : nothing<T>();
    };
#pragma unroll
    for (int i = 0; i < N; ++i)
        raw[i] = between_boundaries(start + LANES * i);
    uint4 after = between_boundaries(start - lane + LANES * N), right = from_right<LANES>(raw[0]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
        uint4 next = i + 1 < N ? from_right<LANES>(raw[min(i + 1, N - 1)]) : after;
        uint4 mine = lane == LANES - 1 ? next : right;
        mine = shifted<T>(raw[i], mine, row.past * int(sizeof(T)));
        raw[i] = unsigned(start + LANES * i) < unsigned(last) ? mine : nothing<T>();
        right = next;
    }
}
