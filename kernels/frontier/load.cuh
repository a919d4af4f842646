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

template <int N> struct Constant {
    static constexpr int value = N;
};

// The same where how many words are skipped is a constant: words then have other names, and only
// those of halves are put together.
template <class T, int WORDS> __device__ uint4 cut(uint4 left, uint4 right, int bits) {
    unsigned w[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
        w[i] =
            sizeof(T) == 2 ? __funnelshift_r(w[WORDS + i], w[WORDS + i + 1], bits) : w[WORDS + i];
    return {w[0], w[1], w[2], w[3]};
}

// ``visit`` with the whole words of ``past`` elements, fewer than a vector's, as a Constant.
template <class T, class Visit> __device__ void with_words(int past, Visit visit) {
    switch (past * int(sizeof(T)) / 4) {
    case 0:
        return visit(Constant<0>());
    case 1:
        return visit(Constant<1>());
    case 2:
        return visit(Constant<2>());
    default:
        return visit(Constant<3>());
    }
}

// The first COUNT words of the right neighbour's; the last lane has the first one's.
template <int COUNT> __device__ uint4 from_right(uint4 v) {
    unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        w[i] = __shfl_sync(ALL_LANES, w[i], (threadIdx.x + 1) % 32);
    return {w[0], w[1], w[2], w[3]};
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

// Vectors start, start + STEP, ... of the row, from 0 to before ``last``; -inf elsewhere.  With
// EDGES 2 all lanes of a warp come here with vectors of one row that lie side by side.
template <int STEP, class T, int EDGES, int N>
__device__ void load(const Row<T, EDGES> &row, int start, uint4 (&raw)[N], int last = ALL) {
    if constexpr (EDGES < 2) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            int k = start + STEP * i;
            raw[i] = last == ALL || k < last ? row.load(k) : nothing<T>();
        }
        return;
    }
    static_assert(EDGES < 2 || STEP == 32);
    last = min(last, row.vectors);
    int whole = last + (row.past > 0 && last > 0), lane = threadIdx.x % 32;
    auto between_boundaries = [&](int i) {
        return unsigned(i) < unsigned(whole) ? row.body()[i] : nothing<T>();
    };
#pragma unroll
    for (int i = 0; i < N; ++i)
        raw[i] = between_boundaries(start + 32 * i);
    uint4 after = between_boundaries(start - lane + 32 * N);
    auto cut_from_two = [&](auto words) {
        constexpr int WORDS = decltype(words)::value, COUNT = WORDS + (sizeof(T) == 2);
        uint4 right = from_right<COUNT>(raw[0]);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            uint4 next = i + 1 < N ? from_right<COUNT>(raw[min(i + 1, N - 1)]) : after;
            uint4 mine =
                cut<T, WORDS>(raw[i], lane == 31 ? next : right, row.past * int(sizeof(T)) % 4 * 8);
            raw[i] = unsigned(start + 32 * i) < unsigned(last) ? mine : nothing<T>();
            right = next;
        }
    };
    with_words<T>(row.past, cut_from_two);
}

// The same vectors as ``op`` leaves them: without a mask (operators.cuh) as they are.
template <int STEP, class Op, class T, int EDGES, int N>
__device__ void look(const Op &, const Row<T, EDGES> &row, int start, uint4 (&raw)[N],
                     int last = ALL) {
    load<STEP>(row, start, raw, last);
}
