// columns_exchange_on_the_host: stands for kernels/frontier/columns_exchange.cuh where the blocks
// of a cluster run one after the other: a launch writes down their pairs, and the next one over the
// same places finds them all.
#pragma once
#include "columns.cuh"
#include <map>

static std::map<std::pair<unsigned, int>, Partial> pairs; // by block and place

template <int BLOCKS, int PLACES> struct ColumnsExchange {
    int began[MOST], readied[MOST];

    void begin() { began[threadIdx.x] = blockIdx.x + 1; }
    void ready() { readied[threadIdx.x] = began[threadIdx.x]; }

    void tell(int, int place, Partial mine) {
        if (readied[threadIdx.x] == int(blockIdx.x) + 1)
            pairs[{blockIdx.x, place}] = mine;
    }

    Partial of_all(int rank, int place) {
        Partial all = no_partial();
        for (unsigned i = 0; i < BLOCKS; ++i)
            if (auto found = pairs.find({blockIdx.x - rank + i, place}); found != pairs.end())
                all = merged(all, found->second);
        return all;
    }
};
