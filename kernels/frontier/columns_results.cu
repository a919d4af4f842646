// columns_results: the second look of two at rows that no cluster holds: each block puts the
// (maximum, sum) pairs that columns_partials left of its strip together, and reads its share of the
// rows again, the last share first and its last rows first, since the L2 may still hold these.
//   moves    X once more, the strip's pairs, Y once
//   launch   grid = strips * splits, block = THREADS, as columns_partials
//   holds    any rows, of any strides, on any GPU from Ampere on
//   teaches  what a second read costs where no regime holds the rows
//   source   own, after stream.cu

#include "columns_strip.cuh"

template <class T, int BYTES, int LANES, int THREADS, bool LOG>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    softmax_columns(const T *x, const Partial *partials, T *out, long long x_outer,
                    long long x_step, long long out_outer, long long out_step, long long numbers,
                    int pitch, int units, int cols, int splits, int share) {
    using Mine = Unit<T, BYTES>;
    constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH, GROUPS = THREADS / LANES;
    await_turn();
    int strips = gridDim.x / splits, strip = blockIdx.x % strips;
    int lane = threadIdx.x % LANES, split = splits - 1 - blockIdx.x / strips;

    __shared__ Partial rows[PLACES];
    partials += static_cast<long long>(strip) * splits * PLACES;
    Partial all = merge_pairs<PLACES, THREADS>(partials, splits);
    if (threadIdx.x < PLACES)
        rows[threadIdx.x] = told<T, LOG>(all);
    __syncthreads();
    AtPlace<T, LOG> of[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        Partial row = rows[e * LANES + lane];
        of[e] = {row.max, row.sum};
    }
    Spot spot(static_cast<unsigned long long>(strip) * LANES + lane, numbers, pitch, units);
    Share mine(split, share, cols, threadIdx.x / LANES, GROUPS, spot.there);
    x += spot.in(x_outer, Mine::PLACES) + mine.first * x_step;
    out += spot.in(out_outer, Mine::PLACES) + mine.first * out_step;
    second_look(Units<T, Mine>(lets_go(), x, GROUPS * x_step, mine.count), out, GROUPS * out_step,
                of);
}
