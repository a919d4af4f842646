// cuda_float4: a block per row with 16-byte loads; exp(x - max) is parked in the output.
//   moves    X twice, Y written, read back and written again
//   launch   grid = rows, block = 512 or 1024 (above 14,080 columns), shared = 1 float per thread
//   holds    float32, any cols, any row stride and start: a row is peeled to its 16-byte boundary,
//            and goes element by element where input and output disagree on it
//   teaches  wide loads, and that a parked intermediate costs two more trips
//   source   S4, third step (which reads float4 at any address, a fault where rows are not
//            multiples of four floats)

#include <math_constants.h>

#include "block_tree.cuh"

struct Row {
    const float *x;
    float *out;
    int head, tail, cols; // [0, head) and [tail, cols) by element, between them by float4
};

__device__ Row split(const float *x, float *out, int cols) {
    int x_off = reinterpret_cast<unsigned long long>(x) / 4 % 4;
    int out_off = reinterpret_cast<unsigned long long>(out) / 4 % 4;
    if (x_off != out_off)
        return {x, out, cols, cols, cols};
    int head = min(cols, (4 - x_off) % 4);
    return {x, out, head, head + (cols - head) / 4 * 4, cols};
}

__device__ float4 &four(float *p) { return *reinterpret_cast<float4 *>(p); }
__device__ float4 four(const float *p) { return *reinterpret_cast<const float4 *>(p); }

// Shares a row among the threads of the block: one(column) or vector(first column of four).
template <class One, class Vector> __device__ void each(const Row &r, One one, Vector vector) {
    for (int j = threadIdx.x; j < r.head; j += blockDim.x)
        one(j);
    for (int j = r.head + 4 * threadIdx.x; j < r.tail; j += 4 * blockDim.x)
        vector(j);
    for (int j = r.tail + threadIdx.x; j < r.cols; j += blockDim.x)
        one(j);
}

template <class T>
__global__ void softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    extern __shared__ float shared[];
    Row r = split(x + blockIdx.x * x_stride, out + blockIdx.x * out_stride, cols);

    float peak = -CUDART_INF_F;
    each(
        r, [&](int j) { peak = fmaxf(peak, r.x[j]); },
        [&](int j) {
            float4 v = four(r.x + j);
            peak = fmaxf(peak, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
        });
    peak = reduce<Max>(peak, shared);

    float total = 0.0f;
    each(
        r, [&](int j) { total += r.out[j] = expf(r.x[j] - peak); },
        [&](int j) {
            float4 v = four(r.x + j);
            v = {expf(v.x - peak), expf(v.y - peak), expf(v.z - peak), expf(v.w - peak)};
            total += v.x + v.y + v.z + v.w;
            four(r.out + j) = v;
        });
    total = reduce<Sum>(total, shared);

    // A thread reads back only what it wrote itself: the same share, so no fence is needed.
    each(
        r, [&](int j) { r.out[j] /= total; },
        [&](int j) {
            float4 v = four(r.out + j);
            four(r.out + j) = {v.x / total, v.y / total, v.z / total, v.w / total};
        });
}
