// cross_entropy: what a row's target makes of its maximum and sums: the loss, and the gradient of
// that.
//   source   label smoothing: Szegedy et al. 2016, arXiv:1512.00567; the square of lse as a part of
//            the loss: PaLM, Chowdhery et al. 2022, arXiv:2204.02311
#pragma once
#include "exchange.cuh"
#include "held.cuh"

// What is the same for all rows of a launch.
struct Terms {
    long long ignored;       // the target of rows that do not count
    long long weight_stride; // elements between the weights of two rows
    float smoothing, z_loss;
    int every; // whether rows that do not count have their lse written, and so are read
};

// A row's target. The loss is made of its logit by the block whose gradient may take that logit's
// place, which writes nothing before all its threads have met: arrivals at the cluster's barrier
// order no loads (cluster.cuh).
struct Target {
    bool counts;
    int column; // -1: none of the row's

    template <class Index>
    __device__ Target(const Index *targets, long long number, int cols, const Terms &terms) {
        long long given = targets[number];
        counts = given != terms.ignored;
        column = counts && given >= 0 && given < cols ? int(given) : -1;
    }

    __device__ bool skips(const Terms &terms) const { return !counts && !terms.every; }

    // Whether the target is in this block's part of the row; the first has the edges, and losses of
    // rows without a target.
    template <class T, int EDGES>
    __device__ bool lies_in(const Row<T, EDGES> &in, const Portion &part, int rank) const {
        int k = (column - in.head) / WIDTH<T>;
        bool at_edge = column < in.head || k >= in.vectors;
        return at_edge ? rank == 0 : part.first <= k && k < part.last;
    }

    // NaN where the target is not in the row: so is then the loss.
    template <class T> __device__ float logit(const T *row) const {
        return column < 0 ? CUDART_NAN_F : float(row[column]);
    }
};

// What is subtracted from logits before they are summed, so that a common offset loses nothing.
__device__ inline float pivot_of(float logit) { return fabsf(logit) < CUDART_INF_F ? logit : 0.0f; }

// Of N vectors of a row that start at ``start``, STEP apart, those from ``first`` to before
// ``last``: their sum less that of so many pivots.
template <class T, int STEP, int N>
__device__ float sum_of(const uint4 (&raw)[N], int start, int first, int last, float pivot) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        int k = start + STEP * i;
        if (k < first || k >= last)
            continue;
        float v[WIDTH<T>];
        unpack<T>(raw[i], v);
#pragma unroll
        for (float e : v)
            sum += e - pivot;
    }
    return sum;
}

// Nothing that was made of ``raw`` before is known afterwards: else the compiler keeps it, in
// registers that it does not have.
template <int N> __device__ void forget(uint4 (&raw)[N]) {
#pragma unroll
    for (uint4 &each : raw)
        asm volatile("" : "+r"(each.x), "+r"(each.y), "+r"(each.z), "+r"(each.w));
}

// What a row's losses are made of.
struct Summary {
    Partial row;
    float lse;

    __device__ explicit Summary(Partial row) : row(row) {
        lse = row.max == CUDART_INF_F ? row.max : row.max + logf(row.sum);
    }

    // From differences: a row that is shifted keeps its loss. ``mean`` is that of the logits, less
    // the pivot.
    template <bool SMOOTH>
    __device__ float loss(const Target &target, float logit, float mean, const Terms &terms) const {
        if (!target.counts)
            return 0.0f;
        float loss = logf(row.sum);
        if constexpr (SMOOTH) {
            loss += (1.0f - terms.smoothing) * (row.max - logit);
            loss += terms.smoothing * (row.max - pivot_of(logit) - mean);
            loss = target.column < 0 ? CUDART_NAN_F : loss;
        } else {
            loss += row.max - logit;
        }
        return terms.z_loss != 0.0f ? loss + terms.z_loss * lse * lse : loss;
    }

    __device__ void write(float value, const Target &target, const Terms &terms, long long number,
                          float *loss, float *lse_of) const {
        loss[number] = value;
        lse_of[number] = target.skips(terms) ? 0.0f : lse;
    }
};

// Elements of the gradient: weight * (p (1 + 2 z lse) - (1 - smoothing) onehot - smoothing / cols).
template <class T> struct Slope {
    Probability<T, false, Softmax> of;
    float times, less, at_target;
    int column;
    bool counts;

    __device__ Slope(const Summary &sums, const Target &target, float weight, int cols,
                     const Terms &terms)
        : of(Softmax(), base_of(sums.row.max), sums.row.sum), column(target.column),
          counts(target.counts) {
        weight = counts && column < 0 ? CUDART_NAN_F : weight;
        times = terms.z_loss != 0.0f ? weight * fmaf(2.0f * terms.z_loss, sums.lse, 1.0f) : weight;
        less = weight * (terms.smoothing / cols);
        at_target = weight * (1.0f - terms.smoothing);
    }

    __device__ float element(float x, int at) const {
        float g = fmaf(of(x), times, -less);
        g = at == column ? g - at_target : g;
        return counts ? g : 0.0f;
    }

    // A vector of the row, whose first element is in column ``at``.
    __device__ uint4 vector(uint4 raw, int at) const {
        if (!counts)
            return {};
        float v[WIDTH<T>];
        unpack_again<T>(raw, v);
#pragma unroll
        for (float &e : v)
            e = fmaf(of(e), times, -less);
        // Few vectors have the target: the others are spared a look at each element.
        if (unsigned(column - at) < unsigned(WIDTH<T>)) {
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e)
                v[e] = at + e == column ? v[e] - at_target : v[e];
        }
        return pack<T>(v);
    }
};

__device__ inline float weight_of(const float *weight, long long number, const Terms &terms) {
    return weight ? weight[number * terms.weight_stride] : 1.0f;
}

// The row's sum from one of every thread, in all of them: the second exchange.
template <class E> __device__ float sum_of_row(E &exchange, int rank, float mine) {
    int lane = threadIdx.x % 32;
    auto merge = [&](const Partial *some, int n) {
        return Partial{0.0f, sum_over<32>(lane < n ? some[lane].sum : 0.0f)};
    };
    return exchange.over_all(1, rank, Partial{0.0f, sum_over<32>(mine)}, merge).sum;
}
