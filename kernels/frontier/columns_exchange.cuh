// columns_exchange: the pairs of every place of a strip from all blocks of a cluster, each of which
// writes its own to the shared memory of the others.  PARTS neighbouring threads share a place.
//   source   as exchange.cuh
#pragma once
#include "columns.cuh"
#include "mailbox.cuh"

template <int BLOCKS, int PLACES, int PARTS> struct ColumnsExchange : Mailbox<BLOCKS, PLACES> {
    using Mailbox<BLOCKS, PLACES>::of_block;
    using Mailbox<BLOCKS, PLACES>::arrived;

    // Threads with this block's pair of a place, each to its part of the blocks.
    __device__ void tell(int rank, int place, int part, Partial mine) {
#pragma unroll 1 // registers are the rows'
        for (int to = part; to < BLOCKS; to += PARTS)
            send(mine, &of_block[rank][place], &arrived, to);
    }

    // The pair of all blocks, when all have told theirs.
    __device__ Partial of_all(int place, int part) {
        wait(&arrived, 0);
        // The maximum first: then no exponential waits for another.
        Partial all = no_partial();
#pragma unroll 4 // registers are the rows'
        for (int from = part; from < BLOCKS; from += PARTS)
            all.max = larger(all.max, of_block[from][place].max);
        all.max = max_over<PARTS>(all.max);
#pragma unroll 4
        for (int from = part; from < BLOCKS; from += PARTS)
            all.sum += moved(Softmax{}, of_block[from][place].sum, of_block[from][place].max,
                             base_of(all.max));
        all.sum = sum_over<PARTS>(all.sum);
        return all;
    }
};
