// backward_warp: LANES lanes a row, y and dy in their registers; THREADS / LANES rows a block.
//   moves    Y once, dY once, dX once
//   launch   grid = rows * LANES / THREADS, block = THREADS
//   holds    LANES * VECTORS vectors of 16 bytes; with edges LANES is 8 or more, of 16 bits 16
//   teaches  the gradient needs one sum a row: a softmax without its maximum and its exponentials
//   source   own, after warp.cu

#include "backward.cuh"

template <class T, int LANES, int THREADS, int VECTORS, int EDGES, class... Given>
__global__ void __launch_bounds__(THREADS)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long rows, Given... given) {
    await_turn();
    long long row = blockIdx.x * static_cast<long long>(THREADS / LANES) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    bool mine = row < rows; // lanes without a row shuffle all the same
    row = mine ? row : 0;
    auto op = gradient_of(given...);
    Gradient<T, EDGES, decltype(op)> at(op, y + row * y_stride, dy + row * dy_stride,
                                        dx + row * dx_stride, cols);

    Pair held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held[i] = at.load(lane + LANES * i);
    auto edge = at.load_edge(lane);
    float sum = sum_over<LANES>(terms<T>(op, held) + at.edge_term(edge));

    if (!mine)
        return;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        at.store(lane + LANES * i, held[i], sum);
    at.store_edge(edge, sum);
}
