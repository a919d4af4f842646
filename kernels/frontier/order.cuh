// order: elements in the order of a stable sort, the largest first, as one unsigned integer each:
// the value's order in the upper half, the column inverted in the lower, so that no two are equal.
// -0 is 0, and NaN is above +inf, as torch.topk has it.
//   source   own; floats as ordered integers as in reduce.cuh
#pragma once
#include "reduce.cuh"

using Key = unsigned long long; // 0 is nobody's

// Bits at the end of a float that no element of T sets.
template <class T> constexpr int UNUSED = 0;
template <> constexpr int UNUSED<__half> = 13;
template <> constexpr int UNUSED<__nv_bfloat16> = 16;
template <class T> constexpr unsigned USED = ~((1u << UNUSED<T>)-1);

template <class T> __device__ unsigned ordered(float v) {
    unsigned bits = __float_as_uint(v + 0.0f); // -0 + 0 is 0
    bits ^= bits >> 31 ? ~0u : 0x80000000;
    return (v == v ? bits : ~0u) & USED<T>;
}

template <class T> __device__ float value_of(unsigned order) {
    return __uint_as_float((order ^ (order >> 31 ? 0x80000000 : ~0u)) & USED<T>);
}

template <class T> __device__ Key key_of(float v, int column) {
    return static_cast<Key>(ordered<T>(v)) << 32 | ~static_cast<unsigned>(column);
}
__device__ inline int column_of(Key key) { return static_cast<int>(~static_cast<unsigned>(key)); }

__device__ inline unsigned max_over_warp(unsigned v) {
    return static_cast<unsigned>(__reduce_max_sync(ALL_LANES, static_cast<int>(v ^ 0x80000000))) ^
           0x80000000;
}

__device__ inline Key max_over_warp(Key key) {
    unsigned high = max_over_warp(static_cast<unsigned>(key >> 32));
    unsigned low = max_over_warp(key >> 32 == high ? static_cast<unsigned>(key) : 0u);
    return static_cast<Key>(high) << 32 | low;
}
