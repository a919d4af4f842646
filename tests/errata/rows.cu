// Rows held in registers, read twice, or only reduced, to count registers, spills and loads.
// Never run: what the compiler makes of these steps is what is looked at.  Source: S5.

#include <math_constants.h>

constexpr unsigned ALL = ~0u;

// THREADS = 32 is a warp per row, 1024 a block per row; a row has THREADS * VECTORS * 4 columns.
template <int THREADS, int VECTORS>
__device__ void hold(const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float peaks[32], sums[32];
    long long row = 1ll * blockIdx.x * THREADS * VECTORS;
    auto in = reinterpret_cast<const float4 *>(x) + row + threadIdx.x;
    auto to = reinterpret_cast<float4 *>(out) + row + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float4 v[VECTORS];
    float peak = -CUDART_INF_F;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        v[i] = in[i * THREADS];
        peak = fmaxf(peak, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    for (int mask = 16; mask; mask /= 2)
        peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, mask));
    if (THREADS > 32) {
        peaks[warp] = peak;
        __syncthreads();
        peak = peaks[lane % (THREADS / 32)];
        for (int mask = 16; mask; mask /= 2)
            peak = fmaxf(peak, __shfl_xor_sync(ALL, peak, mask));
    }

    float sum = 0;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        v[i] = {__expf(v[i].x - peak), __expf(v[i].y - peak), __expf(v[i].z - peak),
                __expf(v[i].w - peak)};
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    for (int mask = 16; mask; mask /= 2)
        sum += __shfl_xor_sync(ALL, sum, mask);
    if (THREADS > 32) {
        sums[warp] = sum;
        __syncthreads();
        sum = lane < THREADS / 32 ? sums[lane] : 0;
        for (int mask = 16; mask; mask /= 2)
            sum += __shfl_xor_sync(ALL, sum, mask);
    }

    float scale = __frcp_rn(sum);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        to[i * THREADS] = {v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale};
}

template <int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS)
    bounded(const float *__restrict__ x, float *__restrict__ out) {
    hold<THREADS, VECTORS>(x, out);
}

template <int THREADS, int VECTORS>
__global__ void unbounded(const float *__restrict__ x, float *__restrict__ out) {
    hold<THREADS, VECTORS>(x, out);
}

struct Pair {
    float peak, sum;

    __device__ void add(float v) {
        float higher = fmaxf(peak, v);
        sum = sum * __expf(peak - higher) + __expf(v - higher);
        peak = higher;
    }
    __device__ void add(float4 v) {
        add(v.x);
        add(v.y);
        add(v.z);
        add(v.w);
    }
};

template <int THREADS, int VECTORS> __device__ Pair reduce(const float4 *__restrict__ in) {
    __shared__ float peaks[THREADS], sums[THREADS];
    Pair mine{-CUDART_INF_F, 0};
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        mine.add(in[i * THREADS]);
    peaks[threadIdx.x] = mine.peak;
    sums[threadIdx.x] = mine.sum;
    for (int offset = THREADS / 2; offset; offset /= 2) {
        __syncthreads();
        if (threadIdx.x < offset) {
            float a = peaks[threadIdx.x], b = peaks[threadIdx.x + offset], higher = fmaxf(a, b);
            sums[threadIdx.x] = sums[threadIdx.x] * __expf(a - higher) +
                                sums[threadIdx.x + offset] * __expf(b - higher);
            peaks[threadIdx.x] = higher;
        }
    }
    __syncthreads();
    return {peaks[0], sums[0]};
}

// The split kernel's first launch: nothing of the row is kept.
template <int VECTORS>
__global__ void __launch_bounds__(1024)
    reduced(const float *__restrict__ x, float *__restrict__ out) {
    auto in = reinterpret_cast<const float4 *>(x) + 1024ll * VECTORS * blockIdx.x + threadIdx.x;
    Pair whole = reduce<1024, VECTORS>(in);
    out[2 * blockIdx.x] = whole.peak;
    out[2 * blockIdx.x + 1] = whole.sum;
}

// The two-pass kernel, its second read by __ldg or by a plain load.
template <int VECTORS, bool LDG>
__global__ void __launch_bounds__(1024)
    twice(const float *__restrict__ x, float *__restrict__ out) {
    long long row = 1024ll * VECTORS * blockIdx.x;
    auto in = reinterpret_cast<const float4 *>(x) + row + threadIdx.x;
    auto to = reinterpret_cast<float4 *>(out) + row + threadIdx.x;
    Pair whole = reduce<1024, VECTORS>(in);
    float scale = __frcp_rn(whole.sum);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        float4 v = LDG ? __ldg(in + i * 1024) : in[i * 1024];
        to[i * 1024] = {__expf(v.x - whole.peak) * scale, __expf(v.y - whole.peak) * scale,
                        __expf(v.z - whole.peak) * scale, __expf(v.w - whole.peak) * scale};
    }
}

// What S5 makes of a row of N columns over 1024 threads.
template <int N> __global__ void whole_row(const float *__restrict__ x, float *__restrict__ out) {
    hold<1024, N / (1024 * 4)>(x, out);
}
