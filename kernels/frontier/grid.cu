// grid: ``parts`` blocks per row, and TURNS rows a block, in their registers; one exchange of (max,
// sum) through global memory (INVARIANT: two).
//   moves    X once, Y once
//   launch   cooperative, grid = rows / TURNS * parts, block = THREADS; at least LEAST blocks a
//            multiprocessor
//   holds    parts * THREADS * VECTORS vectors of 16 bytes a row; all rows at once
//   teaches  few wide rows are soonest done where every multiprocessor holds a piece of one; of
//   two,
//            the exchange of each takes place while the other is read or written
//   source   shared/KERNELS.md, G; the words that meet as in chunks.cu

#include "deal.cuh"
#include "held.cuh"

template <class T, int THREADS, int VECTORS, int LEAST, int TURNS, bool RAW, int EDGES,
          bool INVARIANT>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, int rows,
            int parts, Scratch *scratch) {
    await_turn();
    constexpr int WARPS = THREADS / 32;
    int group = blockIdx.x / parts, rank = blockIdx.x % parts;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned number = *(volatile unsigned *)&scratch->launches + 1;
    number += number == 0; // what was never written is 0
    using Mine = Share<EDGES, THREADS, VECTORS>;
    auto in_turn = [&](auto visit) {
#pragma unroll
        for (int t = 0; t < TURNS; ++t)
            if (int row = group * TURNS + t; row < rows)
                visit(t, row);
    };
    auto row_of = [&](int row) {
        return Row<T, EDGES>(x + row * x_stride, out + row * out_stride, cols);
    };

    Held<T, VECTORS, RAW> held[TURNS];
    in_turn([&](int t, int row) {
        auto in = row_of(row);
        Portion part(in, rank, parts);
        load<Mine::STEP>(in, part.start + Mine::thread(), held[t].raw, part.last);
        held[t].edge = rank == 0 ? in.load_edge(threadIdx.x) : -CUDART_INF_F;
    });

    __shared__ Partial of_warp[TURNS][1 + INVARIANT][WARPS], of_row[TURNS][1 + INVARIANT];
    auto posted = [&](int kind, int row) {
        return scratch->posted + (kind * rows + row) * (long long)parts;
    };
    // A pair of each warp becomes the block's, which is posted.
    auto tell = [&](auto merge, int kind, int t, int row, Partial mine) {
        using Merge = decltype(merge);
        if (lane == 0)
            of_warp[t][kind][warp] = mine;
        __syncthreads();
        if (warp == 0) {
            Partial all = Merge::over_warp(lane < WARPS ? of_warp[t][kind][lane] : Merge::none());
            if (lane == 0)
                post(posted(kind, row) + rank, number, all);
        }
    };
    // The row's pair, once all its blocks have posted theirs.
    auto learn = [&](auto merge, int kind, int t, int row) {
        using Merge = decltype(merge);
        if (warp == 0) {
            Partial all = parts <= 32 ? collect<Merge, 1>(posted(kind, row), parts, number)
                                      : collect<Merge, 8>(posted(kind, row), parts, number);
            __syncwarp();
            all = Merge::over_warp(all);
            if (lane == 0)
                of_row[t][kind] = all;
        }
        __syncthreads();
        return of_row[t][kind];
    };
    auto write = [&](int t, int row, Partial of) {
        auto in = row_of(row);
        Portion part(in, rank, parts);
        T *to = out + row * out_stride;
        float edge = held[t].template results<INVARIANT>(of, [&](int i, uint4 vector) {
            int k = part.start + Mine::thread() + Mine::STEP * i;
            in.store(to, k, part.first, part.last, vector);
        });
        if (rank == 0)
            in.store_edge(to, threadIdx.x, edge);
    };
    if constexpr (INVARIANT) {
        in_turn([&](int t, int row) {
            tell(Merge<false>(), 0, t, row, {held[t].max_of_warp(), 0.0f});
        });
        in_turn([&](int t, int row) {
            float max = learn(Merge<false>(), 0, t, row).max;
            tell(Merge<true>(), 1, t, row, as_partial(held[t].total_of_warp(max)));
        });
        in_turn([&](int t, int row) {
            Partial total = learn(Merge<true>(), 1, t, row);
            write(t, row, of_total(of_row[t][0].max, as_total(total)));
        });
    } else {
        in_turn([&](int t, int row) { tell(Merge<false>(), 0, t, row, held[t].over_warp()); });
        in_turn([&](int t, int row) { write(t, row, learn(Merge<false>(), 0, t, row)); });
    }
    // Nobody reads what was posted after the last block is here: ready for the next launch.
    if (threadIdx.x == 0 && atomicAdd(&scratch->done, 1) == gridDim.x - 1) {
        scratch->done = 0;
        scratch->launches = number;
    }
}
