// cluster: a cluster of BLOCKS blocks per row, the row in their registers, one exchange of
// (max, sum) through distributed shared memory (INVARIANT: two).
//   moves    X once, Y once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS * THREADS * VECTORS vectors of 16 bytes; Hopper and later
//   teaches  a row wider than a block's registers is still read once
//   source   a cluster per row as in QuACK; no closing barrier: shared/KERNELS.md, C

#include "cluster.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int BLOCKS, int LEAST, bool RAW, int EDGES,
          bool INVARIANT>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long) {
    await_turn();
    constexpr int WARPS = THREADS / 32, EXCHANGES = INVARIANT ? 2 : 1;
    int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32;
    long long number = blockIdx.x / BLOCKS;
    Row<T, EDGES> in(x + number * x_stride, out + number * out_stride, cols);
    Portion part(in, rank, BLOCKS);
    using Mine = Share<EDGES, THREADS, VECTORS>;
    int start = part.start + Mine::thread();

    Held<T, VECTORS, RAW> held;
    load<Mine::STEP>(in, start, held.raw, part.last);
    held.edge = rank == 0 ? in.load_edge(threadIdx.x) : -CUDART_INF_F;

    __shared__ Partial of_warp[EXCHANGES][WARPS];
    __shared__ alignas(16) Partial of_block[EXCHANGES][BLOCKS];
    __shared__ Barrier arrived[EXCHANGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < EXCHANGES; ++i)
            init(&arrived[i], 1);
        initialised();
        for (int i = 0; i < EXCHANGES; ++i)
            arrive_expecting(&arrived[i], sizeof of_block[i]);
    }
    __syncwarp();
    arrive(); // while the loads are on their way

    auto here = [&](int i, Partial mine) {
        if (lane == 0)
            of_warp[i][threadIdx.x / 32] = mine;
        __syncthreads();
        if (i == 0)
            await(); // every block's barriers are ready
    };
    auto everywhere = [&](int i, Partial block) {
        if (threadIdx.x < BLOCKS)
            send(block, &of_block[i][rank], &arrived[i], lane);
        wait(&arrived[i], 0);
    };
    Partial row;
    if constexpr (INVARIANT) {
        auto top = [&](const Partial *some, int n) {
            return max_over<32>(lane < n ? some[lane].max : -CUDART_INF_F);
        };
        auto total = [&](const Partial *some, int n) {
            return total_over<32>(lane < n ? as_total(some[lane]) : 0);
        };
        here(0, {held.max_of_warp(), 0.0f});
        everywhere(0, {top(of_warp[0], WARPS), 0.0f});
        float max = top(of_block[0], BLOCKS);
        here(1, as_partial(held.total_of_warp(max)));
        everywhere(1, as_partial(total(of_warp[1], WARPS)));
        row = of_total(max, total(of_block[1], BLOCKS));
    } else {
        auto all = [&](const Partial *some, int n) {
            return over_warp(lane < n ? some[lane] : no_partial());
        };
        here(0, held.over_warp());
        everywhere(0, all(of_warp[0], WARPS));
        row = all(of_block[0], BLOCKS);
    }

    out += number * out_stride;
    float edge = held.template results<INVARIANT>(row, [&](int i, uint4 vector) {
        in.store(out, start + Mine::STEP * i, part.first, part.last, vector);
    });
    if (rank == 0)
        in.store_edge(out, threadIdx.x, edge);
}
