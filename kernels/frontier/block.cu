// block: a block per row, the row in its registers, one barrier (INVARIANT: two).
//   moves    X once, Y once
//   launch   grid = rows, block = THREADS, at least LEAST of them a multiprocessor
//   holds    THREADS * VECTORS vectors of 16 bytes, and the row's edges
//   teaches  hardware that hands out blocks balances the multiprocessors better than a loop does
//   source   the row in registers as in S5; one exchange of (max, sum); shared/KERNELS.md, B and Bp

#include "held.cuh"

template <class T, int THREADS, int VECTORS, int LEAST, bool RAW, int EDGES, bool INVARIANT>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long) {
    constexpr int WARPS = THREADS / 32;
    await_turn();
    using Mine = Share<EDGES, THREADS, VECTORS>;
    Row<T, EDGES> in(x + blockIdx.x * x_stride, out + blockIdx.x * out_stride, cols);
    int start = Mine::thread() - (EDGES ? in.lead() : 0);
    int lane = threadIdx.x % 32, number = threadIdx.x / 32;
    Held<T, VECTORS, RAW> held;
    load<Mine::STEP>(in, start, held.raw);
    held.edge = in.load_edge(threadIdx.x);

    Partial row;
    __shared__ Partial of_warp[WARPS];
    if constexpr (INVARIANT) {
        __shared__ Total total[WARPS];
        if (float max = held.max_of_warp(); lane == 0)
            of_warp[number] = {max, 0.0f};
        __syncthreads();
        float max = max_over<32>(lane < WARPS ? of_warp[lane].max : -CUDART_INF_F);
        if (Total mine = held.total_of_warp(max); lane == 0)
            total[number] = mine;
        __syncthreads();
        row = of_total(max, total_over<32>(lane < WARPS ? total[lane] : 0));
    } else {
        if (Partial mine = held.over_warp(); lane == 0)
            of_warp[number] = mine;
        __syncthreads();
        row = over_warp(lane < WARPS ? of_warp[lane] : no_partial());
    }

    out += blockIdx.x * out_stride;
    float edge = held.template results<INVARIANT>(row, [&](int i, uint4 vector) {
        in.store(out, start + Mine::STEP * i, 0, in.vectors, vector);
    });
    in.store_edge(out, threadIdx.x, edge);
}
