// columns_partials: the first look of two at rows that no cluster holds: a block takes a strip of
// LANES units of adjacent places and one of ``splits`` shares of the rows, of which it leaves each
// place's (maximum, sum) in memory.  columns_results does the rest.
//   moves    X once, and 8 bytes a place and split
//   launch   grid = strips * splits, block = THREADS
//   holds    any rows, of any strides, on any GPU from Ampere on
//   teaches  few strips of many rows still fill a GPU, if the rows are split
//   source   own: columns_strip

#include "columns_strip.cuh"

template <class T, int BYTES, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    softmax_columns(const T *x, Partial *partials, long long x_outer, long long x_step,
                    long long numbers, int pitch, int units, int cols, int splits, int share) {
    using Mine = Unit<T, BYTES>;
    constexpr int PLACES = LANES * Mine::PLACES, GROUPS = THREADS / LANES;
    await_turn();
    int lane = threadIdx.x % LANES;
    // Strips side by side at once: memory is then read by rows, whatever their width.
    int strips = gridDim.x / splits, split = blockIdx.x / strips, strip = blockIdx.x % strips;
    Spot spot(static_cast<unsigned long long>(strip) * LANES + lane, numbers, pitch, units);
    partials += (static_cast<long long>(strip) * splits + split) * PLACES;
    Share mine(split, share, cols, threadIdx.x / LANES, GROUPS, spot.there);
    x += spot.in(x_outer, Mine::PLACES) + mine.first * x_step;
    first_look<T, Mine, LANES, THREADS>(Units<T, Mine>(keeps(), x, GROUPS * x_step, mine.count),
                                        [&](int place, Partial pair) { partials[place] = pair; });
}
