// held: a thread's share of a row between the two looks at it: VECTORS vectors and an element of
// the edges, as exponentials in float, or as they came, to be exponentiated twice, or for
// logarithms once.  As they came, 16-bit rows take half the registers.
#pragma once
#include "exact.cuh"
#include "load.cuh"

template <class T, int VECTORS, bool AS_THEY_CAME, class Op> struct Held {
    static constexpr bool RAW = AS_THEY_CAME || Op::LOG;
    Op op;
    uint4 raw[VECTORS];
    float v[VECTORS][WIDTH<T>]; // of the two, one is used, and the other takes no register
    float edge, base;

    __device__ explicit Held(Op op) : op(op) {}

    // The largest of a warp's shares, once they are in ``raw`` and ``edge``.
    __device__ float max_of_warp() const { return max_over<32>(larger(largest<T>(raw), edge)); }

    // Exponentials relative to ``max``, of which ``add(e)`` is told.
    template <class Add> __device__ void exponentiate(float max, Add add) {
        base = max;
        Exponential<T, Op> of(op, base_of(max));
        float e = of(edge);
        add(e);
        if constexpr (!RAW)
            edge = e;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            float each[WIDTH<T>];
            unpack<T>(raw[i], each);
#pragma unroll
            for (int j = 0; j < WIDTH<T>; ++j) {
                add(e = of(each[j]));
                if constexpr (!RAW)
                    v[i][j] = e;
            }
        }
    }

    // The maximum and the sum of a warp's shares.
    __device__ Partial over_warp() {
        float max = max_of_warp();
        return {max, sum_of_warp(max)};
    }

    // The sum of a warp's shares, relative to ``max``.
    __device__ float sum_of_warp(float max) {
        float sum = 0.0f;
        exponentiate(max, [&](float e) { sum += e; });
        return sum_over<32>(sum) * Exponential<T, Op>(op, base_of(max)).correction();
    }

    // The total of a warp's shares, relative to the maximum of the row.
    __device__ Total total_of_warp(float max) {
        Exact sum;
        exponentiate(max, [&](float e) { sum.add(e); });
        return total_over<32>(sum.total());
    }

    // ``visit(i, vector)`` with the probabilities of a row whose maximum and sum are known; the
    // edge's is returned.  INVARIANT: of a sum of the exponentials as they are.
    template <bool INVARIANT, class Visit> __device__ float results(Partial row, Visit visit) {
        if constexpr (RAW) {
            Probability<T, INVARIANT, Op> of(op, base_of(row.max), row.sum);
            probabilities(raw, of, visit);
            return of(edge);
        } else {
            float scale = op.after(reciprocal<T>(row.sum));
            if constexpr (!INVARIANT)
                scale *= moved(op, 1.0f, base, row.max) *
                         Exponential<T, Op>(op, base_of(base)).correction();
#pragma unroll
            for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
                for (float &e : v[i])
                    e *= scale;
                visit(i, pack<T>(v[i]));
            }
            return edge * scale;
        }
    }
};
