// pick: which of a histogram's bins holds the last one that is wanted, counted from the highest;
// and what so many of a block's threads reach, bit by bit.
//   source   radix selection: Alabi, Blanchard, Gordon and Steinbach 2012, Fast k-Selection
//            Algorithms for Graphics Processing Units
#pragma once
#include "handover.cuh"
#include "order.cuh"

constexpr int DIGIT = 11, BINS = 1 << DIGIT; // three digits are a float
constexpr int THREADS = 256;                 // of a block that selects
constexpr int BINS_EACH = BINS / THREADS;

using Sum = unsigned long long;

struct Picked {
    int bin;
    Sum above, inside; // sums of the bins above it, and of it
    Sum wanted;
};

__device__ inline Sum from_below(Sum v, int step) {
    unsigned low = __shfl_up_sync(ALL_LANES, static_cast<unsigned>(v), step);
    unsigned high = __shfl_up_sync(ALL_LANES, static_cast<unsigned>(v >> 32), step);
    return static_cast<Sum>(high) << 32 | low;
}

template <class V> struct Reached {
    V prefix;
    bool exact; // ``k`` threads reach it, and not more
};

// Of all threads, each with one value: a prefix that those of ``k`` threads at least reach, from
// ``prefix`` on by the bits from before ``end`` down to ``last``: the largest, or, if it is exact,
// the first that exactly k reach.
template <class V> __device__ Reached<V> reached_by(int k, V mine, V prefix, int end, int last) {
    for (int bit = end - 1; bit >= last; --bit) {
        V probe = prefix | static_cast<V>(1) << bit;
        int n = __syncthreads_count(mine >= probe);
        if (n >= k)
            prefix = probe;
        if (n == k)
            return {prefix, true};
    }
    return {prefix, false};
}

// Of all threads: the bin in which the sum from the highest one reaches ``wanted(total)``, which is
// from 1 to the total.
template <class Bin, class Wanted> __device__ Picked pick(const Bin *bins, Wanted wanted) {
    __shared__ Sum of_warp[THREADS / 32];
    __shared__ Picked picked;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Bin *mine = bins + BINS - BINS_EACH * (threadIdx.x + 1);
    Sum own = 0;
#pragma unroll
    for (int i = 0; i < BINS_EACH; ++i)
        own += mine[i];
    Sum upto = own; // from the highest bin to this thread's last
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        Sum before = from_below(upto, step);
        upto += lane < step ? 0 : before;
    }
    if (lane == 31)
        of_warp[warp] = upto;
    __syncthreads();
    Sum total = 0;
    for (int i = 0; i < THREADS / 32; ++i) {
        upto += i < warp ? of_warp[i] : 0;
        total += of_warp[i];
    }
    Sum target = wanted(total), above = upto - own;
    if (above < target && target <= upto) {
        int i = BINS_EACH - 1;
        while (above + mine[i] < target)
            above += mine[i--];
        picked = {static_cast<int>(mine - bins) + i, above, mine[i], target};
    }
    __syncthreads();
    Picked found = picked;
    __syncthreads(); // before anybody comes here again
    return found;
}
