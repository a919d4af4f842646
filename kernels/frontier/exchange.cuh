// exchange: a row's maximum and sum from those of all warps of a block, or of a cluster's blocks,
// each of which writes its pair to the shared memory of the others.
#pragma once
#include "cluster.cuh"
#include "exact.cuh"

// In shared memory; all threads of BLOCKS blocks of WARPS warps take part in EXCHANGES of them.
template <int BLOCKS, int WARPS, int EXCHANGES> struct Exchange {
    Partial of_warp[EXCHANGES][WARPS];
    alignas(16) Partial of_block[EXCHANGES][BLOCKS];
    Barrier arrived[EXCHANGES];

    // Every thread, as soon as its loads are on their way.
    __device__ void begin() {
        if constexpr (BLOCKS > 1) {
            if (threadIdx.x == 0) {
                for (int i = 0; i < EXCHANGES; ++i)
                    init(&arrived[i], 1);
                initialised();
            }
            // Both are one thread's, but the compiler may issue the first for a warp and the second
            // for a lane, which racecheck takes for a race.
            __syncwarp();
            if (threadIdx.x == 0) {
                for (int i = 0; i < EXCHANGES; ++i)
                    arrive_expecting(&arrived[i], sizeof of_block[i]);
            }
            __syncwarp();
            arrive();
        }
    }

    // ``merge(pairs, n)`` of all warps of all blocks, of which ``mine`` is this one's; ``i`` counts
    // the exchanges.  What a thread of the block wrote before, all see afterwards.
    template <class Merge> __device__ Partial over_all(int i, int rank, Partial mine, Merge merge) {
        int lane = threadIdx.x % 32;
        if (lane == 0)
            of_warp[i][threadIdx.x / 32] = mine;
        __syncthreads();
        if constexpr (BLOCKS == 1) {
            return merge(of_warp[i], WARPS);
        } else {
            if (i == 0)
                await(); // every block's barriers are ready
            Partial block = merge(of_warp[i], WARPS);
            if (threadIdx.x < BLOCKS)
                send(block, &of_block[i][rank], &arrived[i], lane);
            wait(&arrived[i], 0);
            return merge(of_block[i], BLOCKS);
        }
    }

    // The row's pair from ``pair()`` of every warp.
    template <class Op, class Pair> __device__ Partial of_row(Op op, int rank, Pair pair) {
        int lane = threadIdx.x % 32;
        return over_all(0, rank, pair(), [&](const Partial *some, int n) {
            return over_warp(op, lane < n ? some[lane] : no_partial());
        });
    }

    // The row's maximum, with none of its sum, from ``max()`` of every warp.
    template <class Max> __device__ float top_of_row(int rank, Max max) {
        int lane = threadIdx.x % 32;
        auto top = [&](const Partial *some, int n) {
            return Partial{max_over<32>(lane < n ? some[lane].max : -CUDART_INF_F), 0.0f};
        };
        return over_all(0, rank, {max(), 0.0f}, top).max;
    }

    // The same pair from every warp's maximum, and then from ``sum(max)`` relative to the row's.
    template <class Op, class Max, class Of>
    __device__ Partial of_row(Op, int rank, Max max, Of sum) {
        int lane = threadIdx.x % 32;
        auto all = [&](const Partial *some, int n) {
            return Partial{0.0f, sum_over<32>(lane < n ? some[lane].sum : 0.0f)};
        };
        float top = top_of_row(rank, max);
        return {top, over_all(1, rank, {0.0f, sum(top)}, all).sum};
    }

    // The same from totals, which add up to the same in any order.
    template <class Max, class Of> __device__ Partial of_row(int rank, Max max, Of total) {
        int lane = threadIdx.x % 32;
        auto sum = [&](const Partial *some, int n) {
            return as_partial(total_over<32>(lane < n ? as_total(some[lane]) : 0));
        };
        float of_all = top_of_row(rank, max);
        return of_total(of_all, as_total(over_all(1, rank, as_partial(total(of_all)), sum)));
    }
};
