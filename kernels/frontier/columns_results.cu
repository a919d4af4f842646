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
    constexpr int PARTS = THREADS / PLACES, TOGETHER = TOGETHER_OF<Mine>;
    static_assert(PARTS > 0);
    await_turn();
    int strips = gridDim.x / splits, strip = blockIdx.x % strips;
    int lane = threadIdx.x % LANES, split = splits - 1 - blockIdx.x / strips;

    __shared__ Partial part[PARTS][PLACES], rows_of_strip[PLACES];
    int place = threadIdx.x % PLACES;
    const Partial *of_strip = partials + static_cast<long long>(strip) * splits * PLACES + place;
    Partial all = no_partial();
    for (int i = threadIdx.x / PLACES; i < splits; i += PARTS)
        all = merged(all, of_strip[static_cast<long long>(i) * PLACES]);
    part[threadIdx.x / PLACES][place] = all;
    __syncthreads();
    if (threadIdx.x < PLACES) {
        for (int i = 1; i < PARTS; ++i)
            all = merged(all, part[i][place]);
        rows_of_strip[place] = told<T, LOG>(all);
    }
    __syncthreads();
    AtPlace<T, LOG> of[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        Partial row = rows_of_strip[e * LANES + lane];
        of[e] = {row.max, row.sum};
    }

    Spot spot(BYTES, sizeof(T), static_cast<unsigned long long>(strip) * LANES + lane, x_outer,
              out_outer, numbers, pitch, units);
    Rows rows(split, share, cols, GROUPS * TOGETHER);
    int last = spot.there ? rows.last : 0;
    const T *from = x + spot.source;
    T *to = out + spot.to;
    for (int trip = rows.trips - 1; trip >= 0; --trip) {
        long long row =
            rows.first + static_cast<long long>(trip) * (GROUPS * TOGETHER) + threadIdx.x / LANES;
        Mine some[TOGETHER];
        load_rows<GROUPS>(from, x_step, row, last, some);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            float v[EACH];
            some[i].unpack(v);
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                v[e] = of[e](v[e]);
            Mine made;
            made.pack(v);
            if (row + GROUPS * i < last)
                made.store(to + (row + GROUPS * i) * out_step);
        }
    }
}
