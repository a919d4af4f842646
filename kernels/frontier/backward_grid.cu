// backward_grid: teams of ``parts`` blocks, as many as are on the GPU at once, each of which takes
// row after row; y and dy in the registers of its blocks, and a part in their shared memory; their
// sums meet in global memory.
//   moves    Y once, dY once, dX once
//   launch   cooperative, grid = teams * parts, block = THREADS; at least LEAST blocks a
//            multiprocessor
//   holds    parts * THREADS * (VECTORS + STASHED) vectors of 16 bytes; parts: at most the GPU's
//            blocks; shared memory for STASHED pairs of vectors a thread, from Hopper on
//   teaches  a multiprocessor with shares of two rows loads the one while the sum of the other is
//            on its way; vectors of a team's next row come as those of the last are left
//   source   own, after grid.cu

#include "backward_stash.cuh"
#include "deal.cuh"

// How sums become one, for ``collect``.
struct Sums {
    __device__ Partial none() const { return {0.0f, 0.0f}; }
    template <int N> __device__ Partial all(Partial (&some)[N]) const {
        Partial total = none();
#pragma unroll
        for (Partial each : some)
            total.sum += each.sum;
        return total;
    }
};

template <class T, int THREADS, int VECTORS, int STASHED, int LEAST, int EDGES, class... Given>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_backward(const T *y, const T *dy, T *dx, long long y_stride, long long dy_stride,
                     long long dx_stride, int cols, long long rows, int parts, Scratch *scratch,
                     Given... given) {
    await_turn();
    int rank = blockIdx.x % parts, team = blockIdx.x / parts, teams = gridDim.x / parts;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    auto op = gradient_of(given...);
    using Mine = Gradient<T, EDGES, decltype(op)>;
    auto at_row = [&](long long row) {
        return Mine(op, y + row * y_stride, dy + row * dy_stride, dx + row * dx_stride, cols);
    };
    auto load = [&](const Mine &at, int i) {
        Portion part(at.row, rank, parts);
        int k = part.start + int(threadIdx.x) + THREADS * i;
        return k < part.last ? at.load(k) : Pair{};
    };
    Stash<THREADS, STASHED, EDGES> stash;
    auto fetch = [&](const Mine &at) {
        Portion part(at.row, rank, parts);
        stash.fetch(at, part.start + THREADS * VECTORS, part.last);
    };
    // Numbers of a team's rows, over all launches; what was never written is 0.
    unsigned before = *(volatile unsigned *)&scratch->launches;
    auto numbered = [&](int turn) {
        unsigned number = before + unsigned(turn) + 1;
        return number + (number < before); // past 0
    };

    long long row = team;
    int turn = 0;
    Mine at = at_row(row);
    fetch(at);
    Pair held[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held[i] = load(at, i);
    auto edge = at.load_edge(threadIdx.x, rank == 0);
    stash.ready();
    for (bool more = true; more; ++turn) {
        float mine = terms<T>(op, held) + at.edge_term(edge);
        Portion part(at.row, rank, parts);
        int start = part.start + int(threadIdx.x), stashed = start + THREADS * VECTORS;
        stash.await(turn);
        mine += stash.template terms<T>(op, stashed, part.last);
        float block = sum_over_block<THREADS>(mine);
        __shared__ float of_row;
        if (warp == 0) {
            // By turns: who posts for the next row but one has all of the next, for which every
            // block posts when it has read this row's.
            Posted *posted = scratch->posted + (turn % 2 * teams + team) * parts;
            if (lane == 0)
                post(posted + rank, numbered(turn), {0.0f, block});
            float sum = sum_over<32>(collect<2>(Sums(), posted, parts, numbered(turn)).sum);
            if (lane == 0)
                of_row = sum;
        }
        // Who goes on writes ``of_row`` again behind the barrier of the next row's sum.
        __syncthreads();
        float sum = of_row;
        row += teams;
        more = row < rows;
        Mine next = more ? at_row(row) : at;
#pragma unroll 1
        for (int i = 0; i < STASHED; ++i)
            if (stashed + THREADS * i < part.last)
                at.store(stashed + THREADS * i, stash[i], sum);
        stash.leave();
        if (more)
            fetch(next);
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            // As they came, in half the registers of floats: unpacked again.
            if (start + THREADS * i < part.last)
                at.template store<true>(start + THREADS * i, held[i], sum);
            if (more)
                held[i] = load(next, i);
        }
        at.store_edge(edge, sum);
        if (more)
            edge = next.load_edge(threadIdx.x, rank == 0);
        at = next;
    }
    if (threadIdx.x == 0 && atomicAdd(&scratch->done, 1u) == gridDim.x - 1) {
        scratch->done = 0; // ready for the next launch
        scratch->launches = numbered(int((rows - 1) / teams));
    }
}
