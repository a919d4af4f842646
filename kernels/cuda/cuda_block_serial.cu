// cuda_block_serial: a block per row; one thread combines what the others found.
//   moves    X three times, Y once
//   launch   grid = rows, block = 256
//   holds    any cols, any row stride
//   teaches  coalesced loads gain most; 255 threads that wait for one cost little
//   source   S4, second kernel, with shared arrays of a fixed size

#include "element.cuh"

constexpr int THREADS = 256;

// Steps are of blockDim.x, as S4's: of a constant size the loops would be unrolled, and have
// several loads in flight where the next rung (cuda_block_tree) has one.
template <class T>
__global__ void softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    __shared__ float of_thread[THREADS], shared_peak, shared_total;
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;

    float peak = -CUDART_INF_F;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        peak = fmaxf(peak, widen(x[j]));
    of_thread[threadIdx.x] = peak;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 0; t < blockDim.x; ++t)
            peak = fmaxf(peak, of_thread[t]);
        shared_peak = peak;
    }
    __syncthreads();
    peak = shared_peak;

    Total sum;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        sum.add(expf(widen(x[j]) - peak));
    of_thread[threadIdx.x] = sum.sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        Total all;
        for (int t = 0; t < blockDim.x; ++t)
            all.add(of_thread[t]);
        shared_total = all.sum;
    }
    __syncthreads();

    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        out[j] = narrow<T>(expf(widen(x[j]) - peak) / shared_total);
}
