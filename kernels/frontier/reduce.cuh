// reduce: maximum and sum of a row from those of its parts, each sum relative to its own maximum.
//   source   Milakov and Gimelshein 2018, arXiv:1805.02867; the maximum as an ordered integer:
//            CUDA C++ Programming Guide, warp reduce functions
#pragma once
#include <math_constants.h>

constexpr unsigned ALL_LANES = 0xffffffff;
constexpr float LOG2E = 1.4426950408889634f;

// 2^v by the hardware: within 2 units in the last place, and 0 below 2^-126.
__device__ inline float exp2_fast(float v) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
    return power;
}

// What may be subtracted from -inf: a part of a row that is masked throughout sums to 0, not NaN.
__device__ inline float base_of(float max) { return max == -CUDART_INF_F ? 0.0f : max; }

struct Partial {
    float max, sum;
};

__device__ inline Partial no_partial() { return {-CUDART_INF_F, 0.0f}; }

// Over LANES (a power of two) neighbours of each lane.
template <int LANES> __device__ float max_over(float v) {
    if constexpr (LANES == 32) {
        // Floats are ordered as integers once the magnitude bits of negative ones are flipped.
        int i = __float_as_int(v);
        i = __reduce_max_sync(ALL_LANES, i ^ (i >> 31 & 0x7fffffff));
        return __int_as_float(i ^ (i >> 31 & 0x7fffffff));
    } else {
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, step));
        return v;
    }
}

template <int LANES> __device__ float sum_over(float v) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, step);
    return v;
}

// The partials of a warp's lanes in one; a lane without one has {-inf, 0}.
__device__ inline Partial over_warp(Partial mine) {
    float max = max_over<32>(mine.max);
    return {max, sum_over<32>(mine.sum * exp2_fast((mine.max - base_of(max)) * LOG2E))};
}
