// columns_powers: exponentials of elements of 16 bits, each of one FMA, exp2(x log2(e) + offset),
// and then of the exponential unit or of a polynomial.  The unit takes 16 a clock and
// multiprocessor, where 128 other instructions start: a share of them by a polynomial comes sooner.
//   source   the share: FlashAttention-4 (Zadouri et al. 2026); the argument in a whole and a
//            fraction by adding a number: Cody and Waite 1980; coefficients own
#pragma once
#include "columns.cuh"

// An offset is rounded.  For bases up to LARGE an exponential is then off by less than 2^-14 of
// itself.  From larger ones elements are shifted before: 16 bits have all digits of the difference
// of two of which neither is more than twice the other, and what is further off counts as nothing.
constexpr float LARGE = 1024.0f;
__device__ inline float shift_of(float base) { return fabsf(base) <= LARGE ? 0.0f : base; }

// 2^(128 u - 127) for u from 0 to 1 by a polynomial: off by less than 1.1e-4 of it, and 0 for 0.
// What is below 2^-126, where floats lose digits, is off by less than that.
__device__ inline float power_of_128th(float u) {
    // The last bits of the sum count 128ths, from -127 on, as an exponent does.
    constexpr float COUNTS = 98304.0f - 127.0f / 128.0f;
    float sum = u + COUNTS, rest = u - (sum - COUNTS);
    // Exactly 1 at 0, of which the exponent -127 leaves no bit.
    float power = fmaf(0.055008933f * (1 << 21), rest, 0.24221096f * (1 << 14));
    power = fmaf(fmaf(power, rest, 0.69328293f * (1 << 7)), rest, 1.0f);
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(sum) << 23));
}

// Of EACH places, exp2(x log2(e) + offset), if that is 2 at most; POLYNOMIAL eighths of them by a
// polynomial, which gives 0 for NaN.
template <int POLYNOMIAL, int EACH> struct Powers {
    static constexpr int FIRST = EACH * POLYNOMIAL / 8;
    float offset[EACH];

    // ``of(place)`` is an offset.
    template <class Of> __device__ explicit Powers(Of of) {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            offset[e] = e < FIRST ? fmaf(of(e), 1.0f / 128, 127.0f / 128) : of(e);
    }

    // The power of an element at each place, in its stead.
    __device__ void operator()(float (&v)[EACH]) const {
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            if (e < FIRST) // less than -127 is -127
                v[e] = power_of_128th(__saturatef(fmaf(v[e], LOG2E / 128, offset[e])));
            else
                v[e] = exp2_fast(fmaf(v[e], LOG2E, offset[e]));
        }
    }
};
