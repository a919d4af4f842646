// summing: weights of tokens (random.cuh), which are multiples of 2^-fixed, in one instruction each
// and exactly, so that no sum depends on an order.
//   source   own
#pragma once
#include "random.cuh"

// A sum is a double from 2^(52 - fixed) on, of which the last bit is 2^-fixed, so that what is
// added is rounded down to a multiple of that.  It holds while the sum is not twice as large: for
// fixed of at most 40, 4095 weights.
struct Summing {
    double zero;

    __device__ explicit Summing(int fixed)
        : zero(__longlong_as_double((1023ll + 52 - fixed) << 52)) {}

    __device__ void add(double &sum, double power) const { sum = __dadd_rd(sum, power); }
    // If v is above a limit, without a branch.
    __device__ void add_above(double &sum, double power, float v, float limit) const {
        asm("{ .reg .pred above; setp.gt.f32 above, %2, %3; @above add.rm.f64 %0, %0, %1; }"
            : "+d"(sum)
            : "d"(power), "f"(v), "f"(limit));
    }
    // As a multiple of 2^-fixed.
    __device__ Sum whole(double sum) const {
        return __double_as_longlong(sum) - __double_as_longlong(zero);
    }
};
