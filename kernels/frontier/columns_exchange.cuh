// columns_exchange: the pairs of every place of a strip from all blocks of a cluster, each of which
// writes its own to the shared memory of the others.
//   source   as exchange.cuh
#pragma once
#include "cluster.cuh"
#include "columns.cuh"

// For one strip after the other, of which every thread counts the turns, from 0.  MEMORIES of the
// pairs take turns: with two, a block that is a strip ahead writes where no other reads any more,
// and is never two ahead, because it needs the pairs of all.
template <int BLOCKS, int PLACES, int MEMORIES> struct ColumnsExchange {
    alignas(16) Partial of_block[MEMORIES][BLOCKS][PLACES];
    Barrier arrived[MEMORIES];

    // Every thread, as soon as its loads are on their way.
    __device__ void begin() {
        if (threadIdx.x == 0) {
            for (int i = 0; i < MEMORIES; ++i)
                init(&arrived[i], 1);
            initialised();
        }
        __syncwarp(); // both are one thread's: exchange.cuh
        if (threadIdx.x == 0)
            for (int i = 0; i < MEMORIES; ++i)
                arrive_expecting(&arrived[i], sizeof of_block[i]);
        __syncwarp();
        arrive();
    }

    // Every thread, before the first of them sends: all blocks' barriers are ready.
    __device__ void ready(int turn) {
        if (turn == 0)
            await();
    }

    // A thread with this block's pair of a place.
    __device__ void tell(int turn, int rank, int place, Partial mine) {
        int i = turn % MEMORIES;
#pragma unroll 1 // registers are the rows'
        for (int to = 0; to < BLOCKS; ++to)
            send(mine, &of_block[i][rank][place], &arrived[i], to);
    }

    // The pair of all blocks, when all have told theirs.  Thread 0 asks for place 0.
    __device__ Partial of_all(int turn, int, int place) {
        int i = turn % MEMORIES;
        wait(&arrived[i], turn / MEMORIES % 2);
        if (MEMORIES > 1 && place == 0) // for the next strip of this memory
            arrive_expecting(&arrived[i], sizeof of_block[i]);
        // The maximum first: then no exponential waits for another.
        float max = -CUDART_INF_F;
#pragma unroll 4 // registers are the rows'
        for (int from = 0; from < BLOCKS; ++from)
            max = larger(max, of_block[i][from][place].max);
        Partial all = {max, 0.0f};
#pragma unroll 4 // registers are the rows'
        for (int from = 0; from < BLOCKS; ++from)
            all.sum += moved(Softmax{}, of_block[i][from][place].sum, of_block[i][from][place].max,
                             base_of(max));
        return all;
    }
};
