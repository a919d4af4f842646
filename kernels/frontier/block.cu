// block: a block per row, the row in its registers, one barrier for the row's (max, sum), or with
// EXCHANGES = 2, and if INVARIANT, one for the maximum and one for the sum.
//   moves    X once, Y once
//   launch   grid = rows, block = THREADS, at least LEAST of them a multiprocessor
//   holds    THREADS * VECTORS vectors of 16 bytes, and the row's edges
//   teaches  hardware that hands out blocks balances the multiprocessors better than a loop does
//   source   the row in registers as in S5; one exchange of (max, sum); shared/KERNELS.md, B and Bp

#include "exchange.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int EXCHANGES, int LEAST, bool RAW, int EDGES,
          bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long,
            Given... given) {
    await_turn();
    using Mine = Share<EDGES, THREADS, VECTORS>;
    Row<T, EDGES> in(x + blockIdx.x * x_stride, out + blockIdx.x * out_stride, cols);
    int start = Mine::thread() - (EDGES ? in.lead() : 0);
    auto op = operator_of(given...);
    using Op = decltype(op);
    op.go_to(blockIdx.x);
    Held<T, VECTORS, RAW, Op> held(op);
    look<Mine::STEP>(op, in, start, held.raw);
    held.edge = in.load_edge(threadIdx.x, op);

    __shared__ Exchange<1, THREADS / 32, INVARIANT ? 2 : EXCHANGES> exchange;
    Partial row;
    if constexpr (INVARIANT)
        row = exchange.of_row(
            0, [&] { return held.max_of_warp(); },
            [&](float max) { return held.total_of_warp(max); });
    else if constexpr (EXCHANGES == 2)
        row = exchange.of_row(
            op, 0, [&] { return held.max_of_warp(); },
            [&](float max) { return held.sum_of_warp(max); });
    else
        row = exchange.of_row(op, 0, [&] { return held.over_warp(); });

    out += blockIdx.x * out_stride;
    float edge = held.template results<INVARIANT>(row, [&](int i, uint4 vector) {
        in.store(out, start + Mine::STEP * i, 0, in.vectors, vector);
    });
    in.store_edge(out, threadIdx.x, edge);
}
