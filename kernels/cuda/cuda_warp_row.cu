// cuda_warp_row: a warp per row, the row in registers.
//   moves    X once, Y once, until the row spills
//   launch   grid = rows / 4, block = 128: 4 warps, 4 rows
//   holds    float32, cols <= 8192 (256 floats a lane); rows off 16 bytes go element by element
//   teaches  no shared memory and no barrier, and where 32 lanes run out of registers
//   source   S5, the fused warp kernel

#include "block_tree.cuh"
#include "exponential.cuh"
#include "shuffle.cuh"
#include "vectors.cuh"

template <class T, int THREADS, int VECTORS, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, int rows) {
    int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return; // the whole warp
    x += row * x_stride;
    out += row * out_stride;

    float4 held[VECTORS];
    float peak = LOWEST;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] = load<WHOLE>(x, 4 * (lane + 32 * i), cols, on_16_bytes(x));
        peak = fmaxf(peak, largest(held[i]));
    }
    peak = over_lanes<Max>(peak);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] = exponentials(held[i], peak);
        sum += total(held[i]);
    }
    float inverse = __frcp_rn(over_lanes<Sum>(sum));

#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        store<WHOLE>(out, 4 * (lane + 32 * i), cols, on_16_bytes(out), scaled(held[i], inverse));
}
