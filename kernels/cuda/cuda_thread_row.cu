// cuda_thread_row: one thread does a whole row, alone in its block.
//   moves    X three times, Y once
//   launch   grid = rows, block = 1
//   holds    any cols, any row stride
//   teaches  31 of 32 lanes idle, and no two loads in flight: the floor of the ladder
//   source   S4, first kernel; there the maximum starts at -FLT_MAX and the sum is one float, off
//            by 0.5% at 1M columns; here the maximum starts at -inf and the sum is compensated

#include "element.cuh"

template <class T>
__global__ void softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;

    float peak = -CUDART_INF_F;
    for (int j = 0; j < cols; ++j)
        peak = fmaxf(peak, widen(x[j])); // drops NaN, which the sum below brings back

    Total sum;
    for (int j = 0; j < cols; ++j)
        sum.add(expf(widen(x[j]) - peak));

    float total = sum.sum;
    for (int j = 0; j < cols; ++j)
        out[j] = narrow<T>(expf(widen(x[j]) - peak) / total);
}
