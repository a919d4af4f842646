// cuda_online_reload: a block per row, maximum and sum in one sweep, the row loaded again.
//   moves    X twice, Y once
//   launch   grid = rows, block = 256, 512 (above 1024 columns) or 1024 (above 2048)
//   holds    float32, any cols; rows off 16 bytes go element by element
//   teaches  a second read costs less than spills, and more than a row that fits
//   source   S5, the online two-pass kernel; Milakov and Gimelshein 2018.  S5 compiles it for each
//            width with its loops unrolled, at 36 registers: one block of 1024 a multiprocessor,
//            where these loops of four, at 32, let two run

#include "online.cuh"
#include "vectors.cuh"

template <class T, bool WHOLE>
__global__ void __launch_bounds__(1024)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;
    int first = 4 * threadIdx.x, step = 4 * blockDim.x, n = trips(first, cols, step);

    Partial row = EMPTY;
#pragma unroll 4
    for (int i = 0; i < n; ++i)
        row.add(load<WHOLE>(x, first + i * step, cols, on_16_bytes(x)));
    row = over_block(row);

    float inverse = __frcp_rn(row.sum);
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
        int j = first + i * step;
        float4 v = load<WHOLE, true>(x, j, cols, on_16_bytes(x));
        store<WHOLE>(out, j, cols, on_16_bytes(out), scaled(exponentials(v, row.max), inverse));
    }
}
