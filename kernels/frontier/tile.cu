// tile: whole rows side by side in shared memory, brought and taken by the copy engine; LANES lanes
// a row.
//   moves    X once, Y once
//   launch   grid = tiles of ``tile`` rows, block = 64
//   holds    contiguous rows of LANES * EACH elements; Hopper and later
//   teaches  rows of no whole number of vectors are a whole number of them together
//   source   shared/KERNELS.md, T

#include "bulk.cuh"
#include "reduce.cuh"
#include "vectors.cuh"

constexpr int THREADS = 64;

template <class T, int LANES, int EACH>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, int cols, long long rows, int tile) {
    extern __shared__ __align__(128) char shared[];
    __shared__ Barrier here;
    long long first = blockIdx.x * (long long)tile;
    int count = int(min((long long)tile, rows - first)), elements = count * cols;
    // All of the tile's elements as one row; in shared memory they lie by 16 bytes as in ``x``.
    Row<T, true> in(x + first * cols, elements);
    T *held = reinterpret_cast<T *>(shared) + (WIDTH<T> - in.head) % WIDTH<T>;
    unsigned bytes = in.vectors * 16;
    if (threadIdx.x == 0) {
        init(&here, 1);
        initialised();
        written();
        arrive_expecting(&here, bytes);
        if (bytes > 0)
            load_bulk(held + in.head, in.row + in.head, bytes, &here);
    }
    if (int j = in.edge(threadIdx.x); j >= 0)
        held[j] = in.row[j];
    __syncthreads();
    wait(&here, 0);

    int lane = threadIdx.x % LANES;
    for (int base_row = threadIdx.x / 32 * (32 / LANES); base_row < count;
         base_row += THREADS / LANES) {
        int row = base_row + threadIdx.x % 32 / LANES;
        T *mine = held + row * cols;
        float v[EACH], max = -CUDART_INF_F, sum = 0.0f;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int j = lane + LANES * i;
            v[i] = j < cols && row < count ? float(mine[j]) : -CUDART_INF_F;
            max = fmaxf(max, v[i]);
        }
        float base = base_of(max_over<LANES>(max));
#pragma unroll
        for (float &e : v)
            sum += e = exp2_fast((e - base) * LOG2E);
        float scale = 1.0f / sum_over<LANES>(sum);
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (int j = lane + LANES * i; j < cols && row < count)
                mine[j] = T(v[i] * scale);
    }

    written();
    __syncthreads();
    out += first * cols;
    if (in.alike(out)) {
        if (int j = in.edge(threadIdx.x); j >= 0)
            out[j] = held[j];
        if (threadIdx.x == 0 && bytes > 0)
            store_bulk(out + in.head, held + in.head, bytes);
    } else {
        for (int j = threadIdx.x; j < elements; j += THREADS)
            out[j] = held[j];
    }
}
