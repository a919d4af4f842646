// cuda_block_row: a block of 1024 threads per row, the row in registers.
//   moves    X once, Y once, until the row spills
//   launch   grid = rows, block = 1024
//   holds    float32, cols <= 262,144 (256 floats a thread); rows off 16 bytes go by element
//   teaches  32 times the threads of a warp move the spill 8 times further: 1024 threads leave each
//            64 registers, not 255
//   source   S5, the fused block kernel

#include "block_tree.cuh"
#include "exponential.cuh"
#include "shuffle.cuh"
#include "vectors.cuh"

template <class T, int THREADS, int VECTORS, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;

    float4 held[VECTORS];
    float peak = LOWEST;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] = load<WHOLE>(x, 4 * (threadIdx.x + THREADS * i), cols, on_16_bytes(x));
        peak = fmaxf(peak, largest(held[i]));
    }
    peak = over_block<Max>(peak);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] = exponentials(held[i], peak);
        sum += total(held[i]);
    }
    float inverse = __frcp_rn(over_block<Sum>(sum));

#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        store<WHOLE>(out, 4 * (threadIdx.x + THREADS * i), cols, on_16_bytes(out),
                     scaled(held[i], inverse));
}
