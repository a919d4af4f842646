// cluster: a cluster of BLOCKS blocks per row, the row in their registers, one exchange of
// (max, sum) through distributed shared memory.
//   moves    X once, Y once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS
//   holds    BLOCKS * THREADS * VECTORS vectors of 16 bytes; Hopper and later
//   teaches  a row wider than a block's registers is still read once
//   source   a cluster per row as in QuACK; no closing barrier: shared/KERNELS.md, C

#include "cluster.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int BLOCKS, bool RAW, bool EDGES>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long) {
    constexpr int WARPS = THREADS / 32;
    int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32;
    long long number = blockIdx.x / BLOCKS;
    Row<T, EDGES> in(x + number * x_stride, cols);
    // Equal shares in whole lines.
    int lead = EDGES ? in.lead() : 0;
    int share = (lead + in.vectors + BLOCKS * LINE - 1) / (BLOCKS * LINE) * LINE;
    int start = rank * share + int(threadIdx.x) - lead, end = (rank + 1) * share - lead;

    Held<T, VECTORS, RAW> held;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held.raw[i] = start + THREADS * i < end ? in.load(start + THREADS * i) : nothing<T>();
    held.edge = rank == 0 ? in.load_edge(threadIdx.x) : -CUDART_INF_F;

    __shared__ Partial of_warp[WARPS];
    __shared__ alignas(16) Partial of_block[BLOCKS];
    __shared__ Barrier arrived;
    if (threadIdx.x == 0) {
        init(&arrived, 1);
        initialised();
        arrive_expecting(&arrived, sizeof of_block);
    }
    __syncwarp();
    arrive(); // while the loads are on their way

    Partial warp = held.over_warp();
    if (lane == 0)
        of_warp[threadIdx.x / 32] = warp;
    __syncthreads();
    await(); // every block's barrier is ready
    if (threadIdx.x < 32) {
        Partial block = over_warp(lane < WARPS ? of_warp[lane] : no_partial());
        if (lane < BLOCKS)
            send(block, &of_block[rank], &arrived, lane);
    }
    wait(&arrived, 0);
    Partial row = over_warp(lane < BLOCKS ? of_block[lane] : no_partial());

    out += number * out_stride;
    bool alike = in.alike(out);
    float edge = held.results(row, [&](int i, const float (&v)[WIDTH<T>]) {
        if (start + THREADS * i < end)
            in.store(out, start + THREADS * i, v, alike);
    });
    if (rank == 0)
        in.store_edge(out, threadIdx.x, edge);
}
