// backward_stream: a block per row, which reads the row twice: first its sum, then each vector
// again for its gradient, last ones first, since the L2 may still hold these.
//   moves    Y twice, dY twice, dX once
//   launch   grid = rows, block = THREADS
//   holds    any row, on any GPU from Ampere on
//   teaches  what is left where no cluster holds two rows
//   source   own, after stream.cu

#include "backward.cuh"

constexpr int EACH = 4; // vectors of a tensor on their way at once

template <class T, int THREADS, int EDGES, class... Given>
__global__ void __launch_bounds__(THREADS)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long, Given... given) {
    await_turn();
    long long row = blockIdx.x;
    auto op = gradient_of(given...);
    Gradient<T, EDGES, decltype(op)> at(op, y + row * y_stride, dy + row * dy_stride,
                                        dx + row * dx_stride, cols);
    int start = int(threadIdx.x) - (EDGES ? at.row.lead() : 0);
    int trips = (at.row.vectors - start + THREADS * EACH - 1) / (THREADS * EACH);
    Pair held[EACH];
    auto edge = at.load_edge(threadIdx.x);
    float mine = at.edge_term(edge);
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            held[i] = at.load(start + THREADS * (EACH * trip + i));
        mine += terms<T>(op, held);
    }
    float sum = sum_over_block<THREADS>(mine);
    for (int trip = trips - 1; trip >= 0; --trip) {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            held[i] = at.load(start + THREADS * (EACH * trip + i));
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            at.store(start + THREADS * (EACH * trip + i), held[i], sum);
    }
    at.store_edge(edge, sum);
}
