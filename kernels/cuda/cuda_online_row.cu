// cuda_online_row: a block per row, maximum and sum in one sweep, the row kept in registers.
//   moves    X once, Y once, until the row spills
//   launch   grid = rows, block = 256, 512 (above 1024 columns) or 1024 (above 2048)
//   holds    float32, cols <= 65,536 (64 floats a thread); rows off 16 bytes go element by element
//   teaches  one reduction for two, at the price of three exponentials an element for one
//   source   S5, the online kernel; Milakov and Gimelshein 2018

#include "online.cuh"
#include "vectors.cuh"

template <class T, int THREADS, int VECTORS, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;

    float4 held[VECTORS];
    Partial row = EMPTY;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] = load<WHOLE>(x, 4 * (threadIdx.x + THREADS * i), cols, on_16_bytes(x));
        row.add(held[i]);
    }
    row = over_block(row);

    float inverse = __frcp_rn(row.sum);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        store<WHOLE>(out, 4 * (threadIdx.x + THREADS * i), cols, on_16_bytes(out),
                     scaled(exponentials(held[i], row.max), inverse));
}
