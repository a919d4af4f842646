// element: loads and stores of float, half and bfloat16, computed with in float.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

__device__ inline float widen(float v) { return v; }
__device__ inline float widen(__half v) { return __half2float(v); }
__device__ inline float widen(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T> __device__ T narrow(float v);
template <> __device__ inline float narrow(float v) { return v; }
template <> __device__ inline __half narrow(float v) { return __float2half_rn(v); }
template <> __device__ inline __nv_bfloat16 narrow(float v) { return __float2bfloat16_rn(v); }

// A running sum that carries what rounding loses (Kahan): one float alone is off by 0.5% after a
// million additions.
struct Total {
    float sum = 0.0f, lost = 0.0f;

    __device__ void add(float v) {
        float wanted = v - lost;
        float next = sum + wanted;
        lost = (next - sum) - wanted;
        sum = next;
    }
};
