// columns_held: a block, or a cluster of BLOCKS, takes a strip of LANES units of adjacent places
// and all rows, which its registers hold as they came.
//   moves    X once, Y once
//   launch   grid = strips * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    THREADS / LANES * HELD * BLOCKS rows of any strides; clusters: Hopper and later
//   teaches  a strip as wide as a line of memory is read as fast as a row, without a transposition
//   source   own, after block.cu and cluster.cu

#include "columns_held.cuh"

template <class T, int BYTES, int LANES, int THREADS, int HELD, int BLOCKS, int LEAST, bool LOG>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_columns(const T *x, T *out, long long x_outer, long long x_step, long long out_outer,
                    long long out_step, long long numbers, int pitch, int units, int cols) {
    using Mine = Unit<T, BYTES>;
    constexpr int GROUPS = THREADS / LANES;
    await_turn();
    int lane = threadIdx.x % LANES, rank = blockIdx.x % BLOCKS;
    Spot spot(BYTES, sizeof(T), static_cast<unsigned long long>(blockIdx.x / BLOCKS) * LANES + lane,
              x_outer, out_outer, numbers, pitch, units);
    int share = (cols + BLOCKS - 1) / BLOCKS, last = min(cols, (rank + 1) * share);
    int first = rank * share + int(threadIdx.x) / LANES;

    Mine held[HELD];
    const T *from = x + spot.source + first * x_step;
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        held[i] = spot.there && first + GROUPS * i < last ? Mine::load(from + GROUPS * i * x_step)
                                                          : Mine::nothing();

    __shared__ HeldColumns<T, BYTES, LANES, THREADS, HELD, BLOCKS, 1, LOG> all;
    all.begin();
    T *to = out + spot.to + first * out_step;
    all.results(0, rank, held, [&](int i, Mine made) {
        if (spot.there && first + GROUPS * i < last)
            made.store(to + GROUPS * i * out_step);
    });
}
