// held: a thread's share of a row between the two looks at it: VECTORS vectors and an element of
// the edges, as exponentials in float, or as they came, to be exponentiated twice.  As they came,
// 16-bit rows take half the registers.
#pragma once
#include "reduce.cuh"
#include "vectors.cuh"

template <class T, int VECTORS, bool RAW> struct Held {
    uint4 raw[VECTORS];
    float v[VECTORS][WIDTH<T>]; // of the two, one is used, and the other takes no register
    float edge, base;

    // The maximum and the sum of a warp's shares, once they are in ``raw`` and ``edge``.
    __device__ Partial over_warp() {
        base = max_over<32>(fmaxf(largest<T>(raw), edge));
        float from = base_of(base), sum = exp2_fast((edge - from) * LOG2E);
        if constexpr (!RAW)
            edge = sum;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            float each[WIDTH<T>];
            unpack<T>(raw[i], each);
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e) {
                each[e] = exp2_fast((each[e] - from) * LOG2E);
                sum += each[e];
                if constexpr (!RAW)
                    v[i][e] = each[e];
            }
        }
        return {base, sum_over<32>(sum)};
    }

    // The probabilities of a row whose maximum and sum are known, into ``store(i, vector)``.
    template <class Store> __device__ float results(Partial row, Store store) {
        float from = base_of(row.max), scale = 1.0f / row.sum;
        if constexpr (!RAW)
            scale *= exp2_fast((base - row.max) * LOG2E);
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            float each[WIDTH<T>];
            if constexpr (RAW)
                unpack<T>(raw[i], each);
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e)
                each[e] = (RAW ? exp2_fast((each[e] - from) * LOG2E) : v[i][e]) * scale;
            store(i, each);
        }
        return (RAW ? exp2_fast((edge - from) * LOG2E) : edge) * scale;
    }
};
