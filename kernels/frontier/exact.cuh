// exact: sums of exponentials that have no order.  Relative to the row's maximum exponentials lie
// between 0 and 1; each is rounded to a multiple of 2^-40, and integers are added.
//   error    2^-41 an element at most, of a sum of at least 1
//   holds    rows of at most 2^23 elements: an exponential may exceed 1 by 2^-6 (reduce.cuh,
//            Exponential), and the total stays below 2^64
//   source   one grid for all summands: Demmel and Nguyen 2013, Fast Reproducible Floating-Point
//            Summation
#pragma once
#include "reduce.cuh"

using Total = unsigned long long; // in units of 2^-40

constexpr int FINE_BITS = 22; // a coarse unit, 2^-18, in fine ones

// Of at most 512 exponentials, in two words: a float beside a constant drops its own last bits.
struct Exact {
    int coarse = 0, fine = 0;

    __device__ void add(float e) {
        constexpr float COARSE = 48.0f, FINE = 1.5f / (1 << 17); // ulps of 2^-18 and 2^-40
        float near = e + COARSE, rest = e - (near - COARSE);
        coarse += __float_as_int(near) - __float_as_int(COARSE);
        fine += __float_as_int(rest + FINE) - __float_as_int(FINE);
    }

    __device__ Total total() const {
        return (static_cast<Total>(coarse) << FINE_BITS) + static_cast<long long>(fine);
    }
};

// Over LANES (a power of two) neighbours of each lane.
template <int LANES> __device__ Total total_over(Total mine) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        mine += __shfl_xor_sync(ALL_LANES, mine, step);
    return mine;
}

// A row from its maximum and total.  A maximum of +inf stands for NaN too.
__device__ inline Partial of_total(float max, Total total) {
    constexpr float UNIT = 1.0f / (1ll << 40);
    return {max, max < CUDART_INF_F ? __ull2float_rn(total) * UNIT : CUDART_NAN_F};
}

// A total as it travels where pairs do.
__device__ inline Partial as_partial(Total total) {
    return {__uint_as_float(unsigned(total)), __uint_as_float(unsigned(total >> 32))};
}
__device__ inline Total as_total(Partial p) {
    return static_cast<Total>(__float_as_uint(p.sum)) << 32 | __float_as_uint(p.max);
}

// The sum of a row that LANES neighbours hold, whose maximum they know: each adds its exponentials.
template <int LANES, bool INVARIANT> struct Sum {
    float sum = 0.0f;
    Exact exact;

    __device__ void add(float e) {
        if constexpr (INVARIANT)
            exact.add(e);
        else
            sum += e;
    }

    __device__ float of_row(float max) const {
        if constexpr (INVARIANT)
            return of_total(max, total_over<LANES>(exact.total())).sum;
        else
            return sum_over<LANES>(sum);
    }
};
