// backward_cluster: a cluster of BLOCKS blocks per row, y and dy in their registers, one exchange
// of sums through distributed shared memory.
//   moves    Y once, dY once, dX once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS * THREADS * VECTORS vectors of 16 bytes; Hopper and later
//   teaches  the rows of today's vocabularies, of two tensors, are still read once
//   source   own, after cluster.cu

#include "backward.cuh"
#include "cluster.cuh"

template <class T, int THREADS, int VECTORS, int BLOCKS, int LEAST, int EDGES, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long, Given... given) {
    await_turn();
    int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32;
    long long row = blockIdx.x / BLOCKS;
    auto op = gradient_of(given...);
    Gradient<T, EDGES, decltype(op)> at(op, y + row * y_stride, dy + row * dy_stride,
                                        dx + row * dx_stride, cols);
    Portion part(at.row, rank, BLOCKS);
    int start = part.start + int(threadIdx.x);

    Pair held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held[i] = start + THREADS * i < part.last ? at.load(start + THREADS * i) : Pair{};

    __shared__ alignas(16) Partial of_block[BLOCKS];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        init(&arrived, 1);
        initialised();
        arrive_expecting(&arrived, sizeof of_block);
    }
    __syncwarp();
    arrive(); // while the loads are on their way

    float edge = rank == 0 ? at.edge(threadIdx.x) : 0.0f;
    float block = sum_over_block<THREADS>(terms<T>(op, held) + edge);
    await(); // every block's barrier is ready
    if (threadIdx.x < BLOCKS)
        send({0.0f, block}, &of_block[rank], &arrived, threadIdx.x);
    wait(&arrived, 0);
    float sum = sum_over<32>(lane < BLOCKS ? of_block[lane].sum : 0.0f);

#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        if (start + THREADS * i < part.last)
            at.store(start + THREADS * i, held[i], sum);
    if (rank == 0)
        at.store_edge(threadIdx.x, sum);
}
