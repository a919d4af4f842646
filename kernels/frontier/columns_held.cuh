// columns_held: what becomes of a strip of LANES units of adjacent places whose rows the registers
// of a block, or of a cluster of BLOCKS, hold as they came; maxima and sums of places meet in
// shared memory.
//   source   own, after block.cu and cluster.cu
#pragma once
#include "columns_exchange.cuh"

template <class T, int BYTES, int LANES, int THREADS, int HELD, int BLOCKS, int MEMORIES, bool LOG>
struct HeldColumns {
    using Mine = Unit<T, BYTES>;
    static constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH;
    // Of threads that know nothing of each other before the exchange: a warp's share its shuffles.
    static constexpr int SETS = THREADS / (LANES < 32 ? 32 : LANES);
    static constexpr bool EXPONENTIALS = sizeof(T) == 4 && !LOG; // held in place of the elements

    // In shared memory.
    ColumnsExchange<BLOCKS, PLACES, MEMORIES> exchange;
    Mine tops[SETS][LANES];
    // A place's pair is e * LANES + lane: neighbours write and read neighbouring banks.
    float sums[SETS][PLACES], maxima[PLACES];
    Partial rows[PLACES];

    // Every thread, as soon as its loads are on their way.
    __device__ void begin() {
        if constexpr (BLOCKS > 1)
            exchange.begin();
    }

    // Each unit of results is given to ``store`` by its number, from those that a thread of block
    // ``rank`` of its cluster has in ``held``; ``turn`` counts the strips.
    template <class Store>
    __device__ void results(int turn, int rank, Mine (&held)[HELD], Store store) {
        int lane = threadIdx.x % LANES, set = threadIdx.x / (LANES < 32 ? 32 : LANES);
        Mine top = held[0];
#pragma unroll
        for (int i = 1; i < HELD; ++i)
            top.take_larger(held[i]);
        larger_over_warp<LANES>(top);
        bool speaks = threadIdx.x % 32 < LANES; // for the lanes of its warp that have its places
        if constexpr (SETS > 1) {
            if (speaks)
                tops[set][lane] = top;
            __syncthreads();
#pragma unroll 1 // registers are the rows'
            for (int i = 0; i < SETS; ++i)
                top.take_larger(tops[i][lane]);
        }

        float base[EACH], sum[EACH] = {};
        top.unpack(base);
#pragma unroll
        for (float &b : base)
            b = base_of(b);
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            float v[EACH];
            held[i].unpack(v);
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                v[e] = exp2_fast((v[e] - base[e]) * LOG2E);
                sum[e] += v[e];
            }
            if constexpr (EXPONENTIALS)
                held[i].pack(v);
        }
#pragma unroll
        for (int step = LANES; step < 32; step *= 2) {
#pragma unroll
            for (float &s : sum)
                s += __shfl_xor_sync(ALL_LANES, s, step);
        }

        AtPlace<T, LOG> of[EACH];
        if constexpr (SETS > 1 || BLOCKS > 1) {
            of_all_threads(turn, rank, speaks, set, lane, top, sum);
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                Partial row = rows[e * LANES + lane];
                of[e] = {row.max, row.sum};
            }
        } else {
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                of[e] = {base[e], told<T, LOG>({base[e], sum[e]}).sum};
        }
        if constexpr (EXPONENTIALS && BLOCKS > 1) {
            // From the maximum itself, not its base: a share that is -inf throughout adds 0 times
            // 0.
            float max[EACH];
            top.unpack(max);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                of[e].scale *= exp2_fast((max[e] - of[e].base) * LOG2E);
        }

#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            float v[EACH];
            held[i].unpack_again(v);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                v[e] = EXPONENTIALS ? v[e] * of[e].scale : of[e](v[e]);
            Mine made;
            made.pack(v);
            store(i, made);
        }
    }

    // ``rows`` from every warp's maxima and sums.
    __device__ void of_all_threads(int turn, int rank, bool speaks, int set, int lane, Mine top,
                                   const float (&sum)[EACH]) {
        if (speaks) {
            float max[EACH];
            top.unpack(max);
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                sums[set][e * LANES + lane] = sum[e];
                if (set == 0)
                    maxima[e * LANES + lane] = max[e];
            }
        }
        __syncthreads();
        if constexpr (BLOCKS > 1)
            exchange.ready(turn);
        auto place_of_block = [&](int place) {
            Partial all = {maxima[place], 0.0f};
#pragma unroll 2
            for (int i = 0; i < SETS; ++i)
                all.sum += sums[i][place];
            return all;
        };
        if constexpr (BLOCKS > 1)
            for (int place = threadIdx.x; place < PLACES; place += THREADS)
                exchange.tell(turn, rank, place, place_of_block(place));
        for (int place = threadIdx.x; place < PLACES; place += THREADS) {
            Partial all;
            if constexpr (BLOCKS > 1)
                all = exchange.of_all(turn, rank, place);
            else
                all = place_of_block(place);
            rows[place] = told<T, LOG>(all);
        }
        __syncthreads();
    }
};
