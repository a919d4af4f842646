// exchange_on_the_host: stands for kernels/frontier/exchange.cuh where the blocks of a cluster run
// one after the other: a launch writes down their pairs, and the next one over the same rows finds
// them all.
#pragma once
#include "exact.cuh"
#include <map>

static std::map<unsigned, Partial> pairs; // by block
static std::map<unsigned, Partial> more;  // of a later exchange

template <int BLOCKS, int WARPS, int EXCHANGES> struct Exchange {
    Partial of_warp[WARPS];

    bool began = false;

    void begin() { began = true; }

    template <class Op, class Pair> Partial of_row(Op op, int rank, Pair pair) {
        int lane = threadIdx.x % 32;
        if (Partial mine = pair(); lane == 0)
            of_warp[threadIdx.x / 32] = mine;
        __syncthreads();
        Partial block = over_warp(op, lane < WARPS ? of_warp[lane] : no_partial());
        if (threadIdx.x == 0)
            pairs[blockIdx.x] = block;
        __syncthreads();
        if (!began)
            return no_partial(); // which is no row's
        bool one = lane < BLOCKS && pairs.count(blockIdx.x - rank + lane);
        return over_warp(op, one ? pairs[blockIdx.x - rank + lane] : no_partial());
    }

    template <class Max, class Of> Partial of_row(int, Max, Of) { return no_partial(); }

    template <class Merge> Partial over_all(int i, int rank, Partial mine, Merge merge) {
        if (threadIdx.x % 32 == 0)
            of_warp[threadIdx.x / 32] = mine;
        __syncthreads();
        Partial block = merge(of_warp, WARPS), of_block[BLOCKS];
        if (threadIdx.x == 0)
            more[blockIdx.x] = block;
        __syncthreads();
        for (int other = 0; other < BLOCKS; ++other)
            if (i == 1 && began)
                of_block[other] = more[blockIdx.x - rank + other];
        return merge(of_block, BLOCKS);
    }
};
