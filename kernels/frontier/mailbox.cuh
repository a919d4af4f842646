// mailbox: where a block of a cluster gets the pairs of PLACES from each of its BLOCKS blocks,
// itself among them.
//   source   as exchange.cuh
#pragma once
#include "cluster.cuh"

template <int BLOCKS, int PLACES> struct Mailbox {
    alignas(16) Partial of_block[BLOCKS][PLACES];
    Barrier arrived;

    // Every thread, as soon as its loads are on their way.
    __device__ void begin() {
        if (threadIdx.x == 0) {
            init(&arrived, 1);
            initialised();
        }
        __syncwarp(); // both are one thread's: exchange.cuh
        if (threadIdx.x == 0)
            arrive_expecting(&arrived, sizeof of_block);
        __syncwarp();
        arrive();
    }

    // Every thread, before the first of them sends: all blocks' barriers are ready.
    __device__ void ready() { await(); }
};
