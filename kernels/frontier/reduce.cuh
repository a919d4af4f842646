// reduce: maximum and sum of a row from those of its parts, each sum relative to its own maximum.
//   source   Milakov and Gimelshein 2018, arXiv:1805.02867; the maximum as an ordered integer:
//            CUDA C++ Programming Guide, warp reduce functions
#pragma once
#include "vectors.cuh"

constexpr unsigned ALL_LANES = 0xffffffff;
constexpr float LOG2E = 1.4426950408889634f;

// 2^v by the hardware: within 2 units in the last place, and 0 below 2^-126.
__device__ inline float exp2_fast(float v) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
}

__device__ inline float log2_fast(float v) {
    float power;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
}

// Within 1 unit in the last place; 0 for what would be below 2^-126.
__device__ inline float reciprocal_fast(float v) {
    float one_over;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(one_over) : "f"(v));
    return one_over;
}

// For results of T.
template <class T> __device__ float reciprocal(float v) {
    return sizeof(T) == 2 ? reciprocal_fast(v) : 1.0f / v;
}

// What may be subtracted from -inf: a part of a row that is masked throughout sums to 0, not NaN.
__device__ inline float base_of(float max) { return max == -CUDART_INF_F ? 0.0f : max; }

// What an operator does beside the softmax of a row: nothing.  operators.cuh has others.
struct Softmax {
    // Whether results are logarithms, and whether elements are turned as they are loaded.
    static constexpr bool LOG = false, TURNS = false;

    __device__ void go_to(long long) {}                 // the row, if it matters which
    __device__ float times() const { return 1.0f; }     // a factor of all elements, above 0
    __device__ float after(float v) const { return v; } // what becomes of a result

    template <class T> __device__ float turned(float v, int) const { return v; }
};
__device__ inline Softmax operator_of() { return {}; }

// exp(times (x - base)) for elements of T; of 16 bits one FMA, exp2(x f - base f), for which the
// product with the base is rounded: all exponentials relative to it are too large by
// 1 / ``correction``.
template <class T, class Op> struct Exponential {
    float base, factor, offset = 0.0f;

    __device__ Exponential(Op op, float base) : base(base), factor(op.times() * LOG2E) {
        // Where elements of 16 bits are so large, any two that differ do so by hundreds: a smaller
        // factor serves as well, and keeps the rounding below 2^-6 of an exponent.
        if constexpr (sizeof(T) == 2) {
            factor = fminf(factor, reciprocal_fast(fabsf(base) / (1 << 18)));
            offset = base * factor;
        }
    }

    __device__ float operator()(float x) const {
        if constexpr (sizeof(T) == 2)
            return exp2_fast(fmaf(x, factor, -offset));
        return exp2_fast((x - base) * factor);
    }

    __device__ float correction() const {
        if constexpr (sizeof(T) == 2)
            return exp2_fast(-fmaf(base, factor, -offset));
        return 1.0f;
    }
};

// What a thread keeps of an element between the looks, whose exponential ``add`` is told: that, or
// where logarithms are asked for, the element.
template <class T, class Op, class Add>
__device__ float kept(float x, Exponential<T, Op> of, Add add) {
    float e = of(x);
    add(e);
    return Op::LOG ? x : e;
}

// Results of what is kept, of a row of that sum of exponentials relative to ``base``.
template <class T, class Op> struct Results {
    Op op;
    float base, scale;

    __device__ Results(Op op, float base, float sum) : op(op), base(base) {
        if constexpr (Op::LOG)
            scale = sizeof(T) == 2 ? log2_fast(sum) / -LOG2E : -logf(sum);
        else
            scale = op.after(reciprocal<T>(sum));
    }

    __device__ float operator()(float v) const {
        if constexpr (Op::LOG)
            return op.after(fmaf(v - base, op.times(), scale));
        return v * scale;
    }
};

// Results of elements: EXACTLY those of what would be kept, or of 16 bits with the division in the
// exponent.
template <class T, bool EXACTLY, class Op> struct Probability {
    static constexpr bool IN_EXPONENT = sizeof(T) == 2 && !EXACTLY && !Op::LOG;
    Exponential<T, Op> exponential;
    Results<T, Op> of_kept;
    float scale;

    __device__ Probability(Op op, float base, float sum)
        : exponential(op, base), of_kept(op, base, sum), scale(-log2_fast(sum)) {}

    __device__ float operator()(float x) const {
        const Op &op = of_kept.op;
        if constexpr (IN_EXPONENT)
            return op.after(exp2_fast(fmaf(x - exponential.base, op.times() * LOG2E, scale)));
        return of_kept(Op::LOG ? x : exponential(x));
    }
};

// ``visit(i, vector)`` for N vectors of results.
template <class T, bool EXACTLY, class Op, int N, class Visit>
__device__ void probabilities(const uint4 (&raw)[N], Probability<T, EXACTLY, Op> of, Visit visit) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float v[WIDTH<T>];
        unpack_again<T>(raw[i], v);
#pragma unroll
        for (float &e : v)
            e = of(e);
        visit(i, pack<T>(v));
    }
}

// ``visit(exponential)`` for each element of N vectors.
template <class T, class Op, int N, class Visit>
__device__ void exponentials(const uint4 (&raw)[N], Exponential<T, Op> of, Visit visit) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float v[WIDTH<T>];
        unpack<T>(raw[i], v);
#pragma unroll
        for (float e : v)
            visit(of(e));
    }
}

struct Partial {
    float max, sum;
};

__device__ inline Partial no_partial() { return {-CUDART_INF_F, 0.0f}; }

// Over LANES (a power of two) neighbours of each lane.
template <int LANES> __device__ float max_over(float v) {
    if constexpr (LANES == 32) {
        // Floats are ordered as integers once the magnitude bits of negative ones are flipped;
        // ``larger`` makes NaN the largest.
        int i = __float_as_int(v);
        i = __reduce_max_sync(ALL_LANES, i ^ (i >> 31 & 0x7fffffff));
        return __int_as_float(i ^ (i >> 31 & 0x7fffffff));
    } else {
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            v = larger(v, __shfl_xor_sync(ALL_LANES, v, step));
        return v;
    }
}

template <int LANES> __device__ float sum_over(float v) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

// A sum relative to ``from``, relative to ``base``.
template <class Op> __device__ float moved(Op op, float sum, float from, float base) {
    return sum * exp2_fast((from - base) * (op.times() * LOG2E));
}

// The partials of a warp's lanes in one; a lane without one has {-inf, 0}.
template <class Op> __device__ Partial over_warp(Op op, Partial mine) {
    float max = max_over<32>(mine.max);
    return {max, sum_over<32>(moved(op, mine.sum, mine.max, base_of(max)))};
}
