// backward_exchange: the sum of a row from those of all blocks of a cluster, each of which writes
// its own to the shared memory of the others.
//   source   as exchange.cuh
#pragma once
#include "backward.cuh"
#include "cluster.cuh"

template <int BLOCKS> struct SumExchange {
    alignas(16) Partial of_block[BLOCKS];
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

    // The sum of all blocks', in every thread.
    __device__ float over_cluster(int rank, float block) {
        await(); // every block's barrier is ready
        if (threadIdx.x < BLOCKS)
            send({0.0f, block}, &of_block[rank], &arrived, threadIdx.x);
        wait(&arrived, 0);
        int lane = threadIdx.x % 32;
        return sum_over<32>(lane < BLOCKS ? of_block[lane].sum : 0.0f);
    }
};
