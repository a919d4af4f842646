// columns_partials: the first look of two at rows that no cluster holds: a block takes a strip of
// LANES units of adjacent places and one of ``splits`` shares of the rows, of which it leaves each
// place's (maximum, sum) in memory.  columns_results does the rest.
//   moves    X once, and 8 bytes a place and split
//   launch   grid = strips * splits, block = THREADS
//   holds    any rows, of any strides, on any GPU from Ampere on
//   teaches  few strips of many rows still fill a GPU, if the rows are split
//   source   online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867

#include "columns_strip.cuh"

template <class T, int BYTES, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    softmax_columns(const T *x, Partial *partials, long long x_outer, long long x_step,
                    long long numbers, int pitch, int units, int cols, int splits, int share) {
    using Mine = Unit<T, BYTES>;
    constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH, GROUPS = THREADS / LANES;
    constexpr int SETS = THREADS / 32, TOGETHER = TOGETHER_OF<Mine>;
    await_turn();
    int lane = threadIdx.x % LANES;
    // Strips side by side at once: memory is then read by rows, whatever their width.
    int strips = gridDim.x / splits, split = blockIdx.x / strips, strip = blockIdx.x % strips;
    Spot spot(BYTES, sizeof(T), static_cast<unsigned long long>(strip) * LANES + lane, x_outer, 0,
              numbers, pitch, units);
    Rows rows(split, share, cols, GROUPS * TOGETHER);

    Partial mine[EACH];
#pragma unroll
    for (Partial &place : mine)
        place = no_partial();
    const T *from = x + spot.source;
    for (int trip = 0; trip < rows.trips; ++trip) {
        long long row =
            rows.first + static_cast<long long>(trip) * (GROUPS * TOGETHER) + threadIdx.x / LANES;
        Mine some[TOGETHER];
        load_rows<GROUPS>(from, x_step, row, spot.there ? rows.last : 0, some);
        Mine top = some[0];
#pragma unroll
        for (int i = 1; i < TOGETHER; ++i)
            top.take_larger(some[i]);
        float max[EACH], base[EACH], sum[EACH];
        top.unpack(max);
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            max[e] = larger(max[e], mine[e].max);
            base[e] = base_of(max[e]);
            sum[e] = moved(Softmax{}, mine[e].sum, mine[e].max, base[e]);
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            float v[EACH];
            some[i].unpack_again(v);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                sum[e] += exp2_fast((v[e] - base[e]) * LOG2E);
        }
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            mine[e] = {max[e], sum[e]};
    }

    __shared__ Partial of_set[SETS][PLACES];
#pragma unroll
    for (Partial &place : mine) {
#pragma unroll
        for (int step = LANES; step < 32; step *= 2)
            place = merged(place, {__shfl_xor_sync(ALL_LANES, place.max, step),
                                   __shfl_xor_sync(ALL_LANES, place.sum, step)});
    }
    if (threadIdx.x % 32 < LANES) {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            of_set[threadIdx.x / 32][e * LANES + lane] = mine[e];
    }
    __syncthreads();
    for (int place = threadIdx.x; place < PLACES; place += THREADS) {
        Partial all = of_set[0][place];
#pragma unroll
        for (int i = 1; i < SETS; ++i)
            all = merged(all, of_set[i][place]);
        partials[(static_cast<long long>(strip) * splits + split) * PLACES + place] = all;
    }
}
