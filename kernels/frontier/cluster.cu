// cluster: a cluster of BLOCKS blocks per row, the row in their registers, one exchange of
// (max, sum) through distributed shared memory (INVARIANT: two).
//   moves    X once, Y once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS * THREADS * VECTORS vectors of 16 bytes; Hopper and later
//   teaches  a row wider than a block's registers is still read once
//   source   a cluster per row as in QuACK; no closing barrier: shared/KERNELS.md, C

#include "exchange.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int BLOCKS, int LEAST, bool RAW, int EDGES,
          bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long,
            Given... given) {
    await_turn();
    int rank = blockIdx.x % BLOCKS;
    long long number = blockIdx.x / BLOCKS;
    Row<T, EDGES> in(x + number * x_stride, out + number * out_stride, cols);
    Portion part(in, rank, BLOCKS);
    using Mine = Share<EDGES, THREADS, VECTORS>;
    int start = part.start + Mine::thread();

    auto op = operator_of(given...);
    using Op = decltype(op);
    op.go_to(number);
    Held<T, VECTORS, RAW, Op> held(op);
    look<Mine::STEP>(op, in, start, held.raw, part.last);
    held.edge = rank == 0 ? in.load_edge(threadIdx.x, op) : -CUDART_INF_F;

    __shared__ Exchange<BLOCKS, THREADS / 32, INVARIANT ? 2 : 1> exchange;
    exchange.begin();
    Partial row;
    if constexpr (INVARIANT)
        row = exchange.of_row(
            rank, [&] { return held.max_of_warp(); },
            [&](float max) { return held.total_of_warp(max); });
    else
        row = exchange.of_row(op, rank, [&] { return held.over_warp(); });

    out += number * out_stride;
    float edge = held.template results<INVARIANT>(row, [&](int i, uint4 vector) {
        in.store(out, start + Mine::STEP * i, part.first, part.last, vector);
    });
    if (rank == 0)
        in.store_edge(out, threadIdx.x, edge);
}
