// grid: ``parts`` blocks per row, the row in their registers, one exchange of (max, sum) through
// global memory (INVARIANT: two).
//   moves    X once, Y once
//   launch   cooperative, grid = rows * parts, block = THREADS; at least LEAST blocks a
//            multiprocessor
//   holds    parts * THREADS * VECTORS vectors of 16 bytes; all rows at once
//   teaches  few wide rows are soonest done where every multiprocessor holds a piece of one
//   source   shared/KERNELS.md, G; the words that meet as in chunks.cu

#include "deal.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int LEAST, bool RAW, int EDGES, bool INVARIANT,
          class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, int rows,
            int parts, Scratch *scratch, Given... given) {
    await_turn();
    constexpr int WARPS = THREADS / 32;
    int number_of_row = blockIdx.x / parts, rank = blockIdx.x % parts;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned number = *(volatile unsigned *)&scratch->launches + 1;
    number += number == 0; // what was never written is 0
    Row<T, EDGES> in(x + number_of_row * x_stride, out + number_of_row * out_stride, cols);
    Portion part(in, rank, parts);
    using Mine = Share<EDGES, THREADS, VECTORS>;
    int start = part.start + Mine::thread();

    auto op = operator_of(given...);
    using Op = decltype(op);
    op.go_to(number_of_row);
    Held<T, VECTORS, RAW, Op> held(op);
    look<Mine::STEP>(op, in, start, held.raw, part.last);
    held.edge = rank == 0 ? in.load_edge(threadIdx.x, op) : -CUDART_INF_F;

    __shared__ Partial of_warp[1 + INVARIANT][WARPS], of_row[1 + INVARIANT];
    // The row's pair from one of each warp: its block's is posted, and all that belong to the row
    // are collected.
    auto exchanged = [&](auto merge, int kind, Partial mine) {
        if (lane == 0)
            of_warp[kind][warp] = mine;
        __syncthreads();
        if (warp == 0) {
            Posted *posted = scratch->posted + (kind * rows + number_of_row) * (long long)parts;
            Partial block = merge.over_warp(lane < WARPS ? of_warp[kind][lane] : merge.none());
            if (lane == 0)
                post(posted + rank, number, block);
            Partial row = parts <= 32 ? collect<1>(merge, posted, parts, number)
                                      : collect<8>(merge, posted, parts, number);
            __syncwarp();
            row = merge.over_warp(row);
            if (lane == 0)
                of_row[kind] = row;
        }
        __syncthreads();
        return of_row[kind];
    };
    Partial row;
    if constexpr (INVARIANT) {
        float max = exchanged(Merge<false, Op>{op}, 0, {held.max_of_warp(), 0.0f}).max;
        Partial total = exchanged(Merge<true, Op>{op}, 1, as_partial(held.total_of_warp(max)));
        row = of_total(max, as_total(total));
    } else {
        row = exchanged(Merge<false, Op>{op}, 0, held.over_warp());
    }
    out += number_of_row * out_stride;
    float edge = held.template results<INVARIANT>(row, [&](int i, uint4 vector) {
        in.store(out, start + Mine::STEP * i, part.first, part.last, vector);
    });
    if (rank == 0)
        in.store_edge(out, threadIdx.x, edge);
    // Nobody reads what was posted after the last block is here: ready for the next launch.
    if (threadIdx.x == 0 && atomicAdd(&scratch->done, 1) == gridDim.x - 1) {
        scratch->done = 0;
        scratch->launches = number;
    }
}
