// stream: a block per row, which reads the row twice: first its maximum and sum, then each vector
// again for its probabilities.
//   moves    X twice, Y once
//   launch   grid = rows, block = THREADS
//   holds    any row, on any GPU from Ampere on
//   teaches  what is left where no other regime holds a row
//   source   online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867

#include "reduce.cuh"
#include "vectors.cuh"

constexpr int EACH = 4; // vectors on their way at once

template <class T, int THREADS, bool EDGES>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long) {
    Row<T, EDGES> in(x + blockIdx.x * x_stride, cols);
    int start = int(threadIdx.x) - (EDGES ? in.lead() : 0);
    float edge = in.load_edge(threadIdx.x);
    Partial mine = no_partial();
    for (int j = start; j < in.vectors; j += THREADS * EACH) {
        uint4 raw[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            raw[i] = in.load(j + THREADS * i);
        float max = fmaxf(mine.max, largest<T>(raw)), base = base_of(max);
        float sum = 0.0f; // of this trip: a long row's sum is one of sums
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            float v[WIDTH<T>];
            unpack<T>(raw[i], v);
#pragma unroll
            for (float e : v)
                sum += exp2_fast((e - base) * LOG2E);
        }
        mine = {max, mine.sum * exp2_fast((mine.max - base) * LOG2E) + sum};
    }
    float max = fmaxf(mine.max, edge), base = base_of(max);
    mine = {max,
            mine.sum * exp2_fast((mine.max - base) * LOG2E) + exp2_fast((edge - base) * LOG2E)};

    __shared__ Partial of_warp[THREADS / 32];
    mine = over_warp(mine);
    int lane = threadIdx.x % 32;
    if (lane == 0)
        of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    Partial row = over_warp(lane < THREADS / 32 ? of_warp[lane] : no_partial());

    base = base_of(row.max);
    float scale = 1.0f / row.sum;
    out += blockIdx.x * out_stride;
    bool alike = in.alike(out);
    for (int j = start; j < in.vectors; j += THREADS * EACH) {
        uint4 raw[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            raw[i] = in.load(j + THREADS * i);
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            float v[WIDTH<T>];
            unpack<T>(raw[i], v);
#pragma unroll
            for (float &e : v)
                e = exp2_fast((e - base) * LOG2E) * scale;
            in.store(out, j + THREADS * i, v, alike);
        }
    }
    in.store_edge(out, threadIdx.x, exp2_fast((edge - base) * LOG2E) * scale);
}
