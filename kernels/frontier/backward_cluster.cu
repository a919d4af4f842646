// backward_cluster: a cluster of BLOCKS blocks per row, y and dy in their registers, and of wide
// rows a part in their shared memory; one exchange of sums through distributed shared memory.
//   moves    Y once, dY once, dX once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS * THREADS * (VECTORS + STASHED) vectors of 16 bytes; Hopper and later; shared
//            memory for STASHED pairs of vectors a thread
//   teaches  the rows of today's vocabularies, of two tensors, are still read once; what is in
//            shared memory leaves registers for another block, which loads while this one waits
//   source   own, after cluster.cu

#include "backward_exchange.cuh"
#include "backward_stash.cuh"

constexpr int REGISTERS = 65'536; // of a multiprocessor

template <class T, int THREADS, int VECTORS, int STASHED, int BLOCKS, int LEAST, int EDGES,
          class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long, Given... given) {
    // Where registers are few elements of 16 bits stay as they came: as floats a vector of both
    // tensors takes 16.  What edges take beside them leaves room for those of 7 in 128, but for
    // some 10 words on sm_100.
    constexpr int OF_THREAD = REGISTERS / (THREADS * LEAST), FLOATS = 16 + 16 * VECTORS;
    constexpr bool AGAIN = VECTORS > 7 || OF_THREAD < (EDGES ? 128 : FLOATS);
    await_turn();
    int rank = blockIdx.x % BLOCKS;
    long long row = blockIdx.x / BLOCKS;
    auto op = gradient_of(given...);
    Gradient<T, EDGES, decltype(op)> at(op, y + row * y_stride, dy + row * dy_stride,
                                        dx + row * dx_stride, cols);
    Portion part(at.row, rank, BLOCKS);
    int start = part.start + int(threadIdx.x);

    Stash<THREADS, STASHED, EDGES> stash;
    stash.fetch(at, part.start + THREADS * VECTORS, part.last);
    Pair held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held[i] = start + THREADS * i < part.last ? at.load(start + THREADS * i) : Pair{};
    auto edge = at.load_edge(threadIdx.x, rank == 0);
    __shared__ SumExchange<BLOCKS> exchange;
    exchange.begin(); // while the loads are on their way
    stash.ready();

    float mine = terms<T>(op, held) + at.edge_term(edge);
    stash.await();
    int stashed = start + THREADS * VECTORS;
    mine += stash.template terms<T>(op, stashed, part.last);
    float block = sum_over_block<THREADS>(mine);
    float sum = exchange.over_cluster(rank, block);

#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        if (start + THREADS * i < part.last)
            at.template store<AGAIN>(start + THREADS * i, held[i], sum);
#pragma unroll 1
    for (int i = 0; i < STASHED; ++i)
        if (stashed + THREADS * i < part.last)
            at.store(stashed + THREADS * i, stash[i], sum);
    at.store_edge(edge, sum);
}
