// cluster_on_the_host: stands for kernels/frontier/cluster.cuh where the blocks of a cluster run
// one after the other: a launch keeps what they send, and the next one finds all of it.
#pragma once
#include "bulk.cuh"
#include "reduce.cuh"

static int cluster = 1;                                        // blocks of one, in this launch
static std::map<std::pair<unsigned, Partial *>, Partial> sent; // by block and place there
static unsigned arrived_in[MOST], awaited_in[MOST];            // blocks, from 1, by thread

static void arrive() { arrived_in[threadIdx.x] = blockIdx.x + 1; }
static void await() { awaited_in[threadIdx.x] = arrived_in[threadIdx.x]; }

// Lost where this thread does not know the other's barrier to be ready.
static void send(Partial p, Partial *to, Barrier *, int rank) {
    unsigned block = blockIdx.x / cluster * cluster + rank;
    if (awaited_in[threadIdx.x] != blockIdx.x + 1)
        return;
    sent[{block, to}] = p;
    awaited[block] -= sizeof p;
}

static void deliver(Barrier *barrier, unsigned parity) {
    for (auto [where, p] : sent)
        if (where.first == blockIdx.x && *barrier == parity)
            *where.second = p;
}
static const bool DELIVERS = (delivered = deliver);
