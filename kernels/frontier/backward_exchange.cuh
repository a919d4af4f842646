// backward_exchange: the sum of a row from those of all blocks of a cluster, each of which writes
// its own to the shared memory of the others.
//   source   as exchange.cuh
#pragma once
#include "backward.cuh"
#include "mailbox.cuh"

template <int BLOCKS> struct SumExchange : Mailbox<BLOCKS, 1> {
    // The sum of all blocks', in every thread.
    __device__ float over_cluster(int rank, float block) {
        this->ready();
        if (threadIdx.x < BLOCKS)
            send({0.0f, block}, this->of_block[rank], &this->arrived, threadIdx.x);
        wait(&this->arrived, 0);
        int lane = threadIdx.x % 32;
        return sum_over<32>(lane < BLOCKS ? this->of_block[lane]->sum : 0.0f);
    }
};
