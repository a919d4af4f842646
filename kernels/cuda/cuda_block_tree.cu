// cuda_block_tree: a block per row; both reductions by a tree in dynamic shared memory.
//   moves    X three times, Y once
//   launch   grid = rows, block = 256, shared = 1 float per thread
//   holds    any cols, any row stride
//   teaches  coalesced loads and a block-wide reduction: most of the way from one thread per row
//   source   S4, second step

#include "block_tree.cuh"
#include "element.cuh"

template <class T>
__global__ void softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    extern __shared__ float shared[];
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;

    float peak = -CUDART_INF_F;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        peak = fmaxf(peak, widen(x[j]));
    peak = reduce<Max>(peak, shared);

    Total sum;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        sum.add(expf(widen(x[j]) - peak));
    float total = reduce<Sum>(sum.sum, shared);

    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        out[j] = narrow<T>(expf(widen(x[j]) - peak) / total);
}
