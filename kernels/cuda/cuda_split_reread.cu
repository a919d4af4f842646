// cuda_split_reread: a row shared by 8 blocks in two launches; the second reads the row again.
//   moves    X twice, Y once
//   launch   twice, grid = 8 x rows, block = 256, 512 (above 8192 columns) or 1024 (above 16,384)
//   holds    float32, any cols; rows off 16 bytes go element by element
//   teaches  what splitting a row buys where blocks cannot wait for one another
//   source   S5, the split kernel as it is printed, but for loops of four where S5 unrolls by width
//            (its second launch then takes 40 registers, and one block a multiprocessor)

#include "split.cuh"

template <class T, bool WHOLE>
__global__ void __launch_bounds__(1024)
    partials(const T *x, T *, Partial *parts, long long x_stride, long long, int cols) {
    Share mine(cols);
    x += mine.row * x_stride;
    int first = mine.first + 4 * threadIdx.x, step = 4 * blockDim.x;
    int n = trips(first, mine.last, step);
    Partial part = EMPTY;
#pragma unroll 4
    for (int i = 0; i < n; ++i)
        part.add(load<WHOLE>(x, first + i * step, mine.last, on_16_bytes(x)));
    part = over_block(part);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = part;
}

template <class T, bool WHOLE>
__global__ void __launch_bounds__(1024)
    finish(const T *x, T *out, Partial *parts, long long x_stride, long long out_stride, int cols) {
    Share mine(cols);
    x += mine.row * x_stride;
    out += mine.row * out_stride;
    int first = mine.first + 4 * threadIdx.x, step = 4 * blockDim.x;
    int n = trips(first, mine.last, step);
    Partial row = whole(parts, mine.row);
    float inverse = __frcp_rn(row.sum);
#pragma unroll 4
    for (int i = 0; i < n; ++i) {
        int j = first + i * step;
        float4 v = load<WHOLE, true>(x, j, mine.last, on_16_bytes(x));
        store<WHOLE>(out, j, mine.last, on_16_bytes(out),
                     scaled(exponentials(v, row.max), inverse));
    }
}
