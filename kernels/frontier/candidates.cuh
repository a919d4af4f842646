// candidates: the k largest of a stream of keys that a block looks at, in shared memory: whoever is
// not below a bar goes on a list, which is cut to k when it is nearly full.  The bar is what k
// threads have seen, each in what it looked at, and after a cut the smallest of the k.  Keys have
// no equals, so the k do not depend on who comes first.
//   holds    k <= MOST_TOP; a ROUND of keys between two looks at the list.  Ascending rows put
//            nearly every key on the list and have it cut once a round
//   source   own; a threshold that rises as in Johnson, Douze and Jegou 2017, arXiv:1702.08734
#pragma once
#include "pick.cuh"

constexpr int MOST_TOP = 128, ROUND = 16 * THREADS;
constexpr int CUT_FROM = 512; // with more keys than this a further round may not fit
constexpr int TOP_BITS =
    16; // of a value, that a bar has at most: the others hardly keep anyone out

struct Candidates {
    Key list[CUT_FROM + ROUND];
    Key best[MOST_TOP];
    unsigned bins[BINS];
    int count, kept;

    // Every thread's own.
    struct Bar {
        Key floor = 1;               // who is below is not among the k
        float below = -CUDART_INF_F; // nor is who has a smaller value
        bool full = false;
    };

    __device__ void begin() {
        if (threadIdx.x == 0)
            count = 0;
        __syncthreads();
    }

    // Every thread, before it offers of what it looked at: ``top`` is the largest value in all that
    // it has looked at, in order, and 0 or that of -inf where that is nothing.
    template <class T> __device__ void raise(Bar &bar, unsigned top, int k) {
        unsigned value = reached_by(k, top, 0u, 32, 32 - TOP_BITS).prefix;
        if (Key floor = static_cast<Key>(value) << 32; floor > bar.floor) {
            bar.floor = floor;
            bar.below = value_of<T>(value);
        }
    }

    // Between two rounds ROUND of them at most.
    __device__ void offer(Bar &bar, Key key) {
        if (key < bar.floor)
            return;
        int at = atomicAdd(&count, 1);
        list[at] = key;
        bar.full |= at >= CUT_FROM;
    }

    // Every thread, after each round.
    template <class T> __device__ void next_round(Bar &bar, int k, int column_bits) {
        if (__syncthreads_or(bar.full))
            cut<T>(bar, k, column_bits);
        bar.full = false;
    }

    // Every thread, after a barrier: the list is its k largest.
    template <class T> __device__ void cut(Bar &bar, int k, int column_bits) {
        int listed = count;
        if (listed > k) {
            bar.floor = smallest_of<T>(listed, k, column_bits);
            bar.below = value_of<T>(static_cast<unsigned>(bar.floor >> 32));
            if (threadIdx.x == 0)
                kept = 0;
            __syncthreads();
            for (int i = threadIdx.x; i < listed; i += THREADS)
                if (list[i] >= bar.floor)
                    best[atomicAdd(&kept, 1)] = list[i];
            __syncthreads();
            if (threadIdx.x < k)
                list[threadIdx.x] = best[threadIdx.x];
            if (threadIdx.x == 0)
                count = k;
        }
        __syncthreads();
    }

    // A key that exactly k of the list are not below.
    template <class T> __device__ Key smallest_of(int listed, int k, int column_bits) {
        // Above its bits, an inverted column has ones.
        const Key columns = (~0ull << column_bits) & ~0u;
        if (listed <= THREADS) {
            Key mine = threadIdx.x < listed ? list[threadIdx.x] : 0;
            auto by_value = reached_by(k, mine, Key(0), 64, 32 + UNUSED<T>);
            if (by_value.exact)
                return by_value.prefix;
            return reached_by(k, mine, by_value.prefix | columns, column_bits, 0).prefix;
        }
        Key prefix = 0;
        for (int end = 64, left = k; end > 0;) {
            if (end == 32 + UNUSED<T>) {
                end = column_bits;
                prefix |= columns;
            }
            int bits = min(DIGIT, end > 32 ? end - 32 - UNUSED<T> : end), shift = end - bits;
            for (int i = threadIdx.x; i < BINS; i += THREADS)
                bins[i] = 0;
            __syncthreads();
            for (int i = threadIdx.x; i < listed; i += THREADS)
                if (list[i] >> shift >> bits == prefix >> shift >> bits)
                    atomicAdd(&bins[list[i] >> shift & ((1 << bits) - 1)], 1u);
            __syncthreads();
            Picked found = pick(bins, [&](Sum) { return static_cast<Sum>(left); });
            prefix |= static_cast<Key>(found.bin) << shift;
            left -= static_cast<int>(found.above);
            end = shift;
            if (found.inside == static_cast<Sum>(left))
                break;
        }
        return prefix;
    }

    // Every thread, after ``cut``: ``best`` is the list from the largest on; how many they are.
    __device__ int sort() {
        int n = count, rank = 0;
        if (threadIdx.x < n) {
            for (int i = 0; i < n; ++i)
                rank += list[i] > list[threadIdx.x];
            best[rank] = list[threadIdx.x];
        }
        __syncthreads();
        return n;
    }

    // The k largest of ``n`` keys that lie in memory, in order, to ``best``; k where there are.
    template <class T> __device__ int largest_of(const Key *keys, int n, int k, int column_bits) {
        begin();
        Bar bar;
        unsigned top = 0;
        for (int first = 0; first < n; first += ROUND) {
            int last = min(n, first + ROUND);
            if (n > THREADS) {
                for (int i = first + threadIdx.x; i < last; i += THREADS)
                    top = max(top, static_cast<unsigned>(keys[i] >> 32));
                raise<T>(bar, top, k);
            }
            for (int i = first + threadIdx.x; i < last; i += THREADS)
                offer(bar, keys[i]);
            next_round<T>(bar, k, column_bits);
        }
        __syncthreads();
        cut<T>(bar, k, column_bits);
        return sort();
    }
};
