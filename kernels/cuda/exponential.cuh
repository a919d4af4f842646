// exponential: the hardware's approximation of e^v, or with -D EXACT the maths library's function.
// exp2f of v * log2(e) is the first of the two, to the bit (tests/kernels/test_cache.py).  S5's
// other intrinsic, __frcp_rn, is the correctly rounded reciprocal (docs/errata.md, E43): both forms
// use it.
#pragma once

__device__ inline float exponential(float v) {
#ifdef EXACT
    return expf(v);
#else
    return __expf(v);
#endif
}

__device__ inline float4 exponentials(float4 v, float peak) {
    return {exponential(v.x - peak), exponential(v.y - peak), exponential(v.z - peak),
            exponential(v.w - peak)};
}

// Where maxima start: an empty or fully masked row then has the sum 0, and 0 x 1/0 is the NaN that
// it should be, while -inf - -inf would make NaN of rows that are masked only here and there.
constexpr float LOWEST = -3.402823466e38f;
