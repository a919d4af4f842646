// backward_block: a block per row, y and dy in its registers, one barrier.
//   moves    Y once, dY once, dX once
//   launch   grid = rows, block = THREADS, at least LEAST of them a multiprocessor
//   holds    THREADS * VECTORS vectors of 16 bytes, and the row's edges
//   teaches  two tensors to hold leave room for half the columns of the forward kernel
//   source   own, after block.cu

#include "backward.cuh"

template <class T, int THREADS, int VECTORS, int LEAST, int EDGES, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long, Given... given) {
    await_turn();
    long long row = blockIdx.x;
    auto op = gradient_of(given...);
    Gradient<T, EDGES, decltype(op)> at(op, y + row * y_stride, dy + row * dy_stride,
                                        dx + row * dx_stride, cols);
    int start = int(threadIdx.x) - (EDGES ? at.row.lead() : 0);
    Pair held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held[i] = at.load(start + THREADS * i);
    auto edge = at.load_edge(threadIdx.x);
    float sum = sum_over_block<THREADS>(terms<T>(op, held) + at.edge_term(edge));
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        at.store(start + THREADS * i, held[i], sum);
    // Again, from the L1: kept, it would be a quarter fewer blocks of the narrowest rows.
    at.store_edge(at.load_edge(threadIdx.x), sum);
}
