// staged: a block per row, or a cluster of BLOCKS blocks, the row in their shared memory, where it
// is loaded without passing registers; one exchange of (max, sum) (INVARIANT: two).
//   moves    X once, Y once
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS shares of at most 224 KB; Hopper and later
//   teaches  loads that need no registers leave room for more blocks; a vector is cut from two with
//            one more look at shared memory
//   source   rows staged by cp.async, in clusters, as in QuACK; shared/KERNELS.md

#include "copies.cuh"
#include "exchange.cuh"
#include "load.cuh"

template <class T, int THREADS, int BLOCKS, int LEAST, int EDGES, bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long,
            Given... given) {
    await_turn();
    auto op = operator_of(given...);
    using Op = decltype(op);
    static_assert(!Op::TURNS, "vectors lie in shared memory as in the input, not as in a mask");
    int rank = blockIdx.x % BLOCKS;
    x += blockIdx.x / BLOCKS * x_stride;
    out += blockIdx.x / BLOCKS * out_stride;
    Row<T, EDGES ? 1 : 0> in(x, cols), to(out, cols); // each by its own boundaries
    Portion part(in, rank, BLOCKS);

    // Slots start - 1, start, ..., last: the block's share of the vectors and a neighbour on either
    // side, of which vectors of results are cut with EDGES 2: the next block's first vector, or the
    // elements at the row's ends.
    extern __shared__ uint4 image[];
    auto slot = [&](int k) -> uint4 & { return image[k - part.start + 1]; };
    int begin = part.start + threadIdx.x;
    if (begin < part.first)
        begin += THREADS;
#pragma unroll 4
    for (int k = begin; k < part.last; k += THREADS)
        copy_async(&slot(k), in.body() + k);
    float edge = rank == 0 ? in.load_edge(threadIdx.x, op) : -CUDART_INF_F, edge_of_results = edge;
    if constexpr (EDGES == 2) {
        if (threadIdx.x == THREADS - 1 && part.last < in.vectors)
            copy_async(&slot(part.last), in.body() + part.last);
        if (int j = in.edge(threadIdx.x); j >= 0)
            if (int k = j < in.head ? -1 : in.vectors; k >= part.start - 1 && k <= part.last)
                reinterpret_cast<T *>(&slot(0))[j - in.head] = x[j];
        if (int j = to.edge(threadIdx.x); rank == 0 && j >= 0)
            edge_of_results = float(x[j]);
    }
    __shared__ Exchange<BLOCKS, THREADS / 32, INVARIANT ? 2 : 1> exchange;
    exchange.begin();
    await_copies();

    auto max_of_warp = [&] {
        Largest<T> found;
#pragma unroll 4
        for (int k = begin; k < part.last; k += THREADS)
            found.add(slot(k));
        return max_over<32>(larger(found.of_all(), edge));
    };
    auto exponentiate = [&](Exponential<T, Op> of, auto add) {
        add(of(edge));
#pragma unroll 4
        for (int k = begin; k < part.last; k += THREADS) {
            const uint4 one[] = {slot(k)};
            exponentials<T>(one, of, add);
        }
    };
    Partial row;
    if constexpr (INVARIANT) {
        row = exchange.of_row(rank, max_of_warp, [&](float max) {
            Exact sum;
            exponentiate(Exponential<T, Op>(op, base_of(max)), [&](float e) { sum.add(e); });
            return total_over<32>(sum.total());
        });
    } else {
        row = exchange.of_row(op, rank, [&] {
            float sum = 0.0f, max = max_of_warp();
            Exponential<T, Op> of(op, base_of(max));
            exponentiate(of, [&](float e) { sum += e; });
            return Partial{max, sum_over<32>(sum) * of.correction()};
        });
    }

    Probability<T, INVARIANT, Op> of(op, base_of(row.max), row.sum);
    auto store = [&](int k, uint4 raw) {
        const uint4 one[] = {raw};
        auto visit = [&](int, uint4 vector) { to.store(out, k, 0, to.vectors, vector); };
        probabilities<T>(one, of, visit);
    };
    if constexpr (EDGES == 2) {
        // A vector k of results is ``past`` elements further on than k of the input, or k - 1.
        int away = to.head - in.head, before = away < 0;
        int past = away + before * WIDTH<T>;
        int first = rank == 0 ? 0 : part.start + before, last = part.last + before;
        int lead = (first + to.lead()) % LINE, skipped = past * int(sizeof(T)) % 4 * 8;
        with_words<T>(past, [&](auto words) {
#pragma unroll 2
            for (int k = first - lead + threadIdx.x; k < min(to.vectors, last); k += THREADS)
                if (k >= first)
                    store(k, cut<T, decltype(words)::value>(slot(k - before), slot(k - before + 1),
                                                            skipped));
        });
    } else {
#pragma unroll 4
        for (int k = begin; k < part.last; k += THREADS)
            store(k, slot(k));
    }
    if (rank == 0)
        to.store_edge(out, threadIdx.x, of(edge_of_results));
}
