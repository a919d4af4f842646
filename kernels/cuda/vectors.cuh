// vectors: a row of floats by fours, 16 bytes at a time where the row starts on 16 bytes.
// WHOLE says that all four are there and on 16 bytes.  A look at the row's end, and be it never
// reached, is a branch between two loads: the second would wait for the first.
#pragma once
#include <math_constants.h>

// Trips of a loop from ``first`` to ``last``.  One that counts them is unrolled with no look at its
// end between two loads.
__device__ inline int trips(int first, int last, int step) {
    return max(0, (last - first + step - 1) / step);
}

__device__ inline bool on_16_bytes(const float *row) {
    return reinterpret_cast<unsigned long long>(row) % 16 == 0;
}

// Columns j to j + 3, -inf beyond the row.  CACHED reads through the read-only cache.
template <bool WHOLE = false, bool CACHED = false>
__device__ float4 load(const float *row, int j, int cols, bool wide) {
    if (WHOLE || (wide && j + 3 < cols)) {
        auto four = reinterpret_cast<const float4 *>(row + j);
        return CACHED ? __ldg(four) : *four;
    }
    float v[4];
    for (int k = 0; k < 4; ++k)
        v[k] = j + k < cols ? row[j + k] : -CUDART_INF_F;
    return {v[0], v[1], v[2], v[3]};
}

template <bool WHOLE = false>
__device__ void store(float *row, int j, int cols, bool wide, float4 v) {
    if (WHOLE || (wide && j + 3 < cols)) {
        *reinterpret_cast<float4 *>(row + j) = v;
        return;
    }
    float each[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4; ++k)
        if (j + k < cols)
            row[j + k] = each[k];
}

__device__ inline float largest(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }
__device__ inline float total(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ inline float4 scaled(float4 v, float by) {
    return {v.x * by, v.y * by, v.z * by, v.w * by};
}
