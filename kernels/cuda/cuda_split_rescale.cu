// cuda_split_rescale: a row shared by 8 blocks in two launches; the second rescales the output.
//   moves    X once, Y written, read back and written again
//   launch   twice, grid = 8 x rows, block = 256, 512 or 1024 (S5's text has one block a row in the
//            second launch)
//   holds    float32, cols <= 262,144 (32 floats a thread); rows off 16 bytes go element by element
//   teaches  parking exp(x - max) in the output costs a write more than reading the input again
//   source   S5, the split kernel as its text tells it

#include "split.cuh"

template <class T, int THREADS, int VECTORS, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    partials(const T *x, T *out, Partial *parts, long long x_stride, long long out_stride,
             int cols) {
    Share mine(cols);
    x += mine.row * x_stride;
    out += mine.row * out_stride;
    float4 held[VECTORS];
    Partial part = EMPTY;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        held[i] =
            load<WHOLE>(x, mine.first + 4 * (threadIdx.x + THREADS * i), mine.last, on_16_bytes(x));
        part.add(held[i]);
    }
    part = over_block(part);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = part;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        store<WHOLE>(out, mine.first + 4 * (threadIdx.x + THREADS * i), mine.last, on_16_bytes(out),
                     exponentials(held[i], part.max));
}

template <class T, int THREADS, int VECTORS, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    finish(const T *, T *out, Partial *parts, long long, long long out_stride, int cols) {
    Share mine(cols);
    out += mine.row * out_stride;
    Partial row = whole(parts, mine.row);
    float by = exponential(parts[blockIdx.x].max - row.max) * __frcp_rn(row.sum);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        int j = mine.first + 4 * (threadIdx.x + THREADS * i);
        store<WHOLE>(out, j, mine.last, on_16_bytes(out),
                     scaled(load<WHOLE>(out, j, mine.last, on_16_bytes(out)), by));
    }
}
