// cross_entropy_stream: a row's loss and lse by a block, or a cluster of BLOCKS blocks, that read
// it once; for the gradient they read it again, last vectors first, since the L2 may still hold
// these.
//   moves    X once (GRADIENT: twice, and the gradient once); of each row a target, the loss, lse
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS
//   holds    any row, on any GPU from Ampere on; BLOCKS > 1: Hopper and later
//   teaches  a loss needs no row to lie anywhere: one pass over any width
//   source   online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867

#include "cross_entropy.cuh"

constexpr int EACH = 4; // vectors on their way at once

template <class T, class Index, int THREADS, int BLOCKS, int EDGES, bool GRADIENT, bool SMOOTH>
__global__ void __launch_bounds__(THREADS)
    cross_entropy(const T *x, T *grad, const Index *targets, const float *weight, float *loss,
                  float *lse, long long x_stride, long long grad_stride, int cols, long long,
                  Terms terms) {
    await_turn();
    int rank = blockIdx.x % BLOCKS, lane = threadIdx.x % 32;
    long long number = blockIdx.x / BLOCKS;
    x += number * x_stride;
    grad += GRADIENT ? number * grad_stride : 0;
    Target target(targets, number, cols, terms);
    Row<T, EDGES> in(x, grad, cols);
    Portion part(in, rank, BLOCKS);
    using Mine = Share<EDGES, THREADS, EACH>;
    constexpr int TRIP = THREADS * EACH;
    // The lanes of a warp take the same trips.
    int start = part.start + Mine::thread();
    int trips = max(0, part.last - (start - lane) + TRIP - 1) / TRIP;

    Partial row = no_partial();
    float edge = 0.0f, logit = CUDART_NAN_F, mean = 0.0f;
    if (!target.skips(terms)) {
        edge = rank == 0 ? in.load_edge(threadIdx.x, Softmax()) : -CUDART_INF_F;
        logit = target.logit(x);
        __shared__ Exchange<BLOCKS, THREADS / 32, SMOOTH ? 2 : 1> exchange;
        exchange.begin();
        float pivot = pivot_of(logit), all = 0.0f;
        if (SMOOTH && rank == 0 && in.edge(threadIdx.x) >= 0)
            all = edge - pivot;
        Partial mine = {edge, edge == -CUDART_INF_F ? 0.0f : 1.0f};
        for (int trip = 0; trip < trips; ++trip) {
            int j = start + TRIP * trip;
            uint4 raw[EACH];
            load<Mine::STEP>(in, j, raw, part.last);
            float max = larger(mine.max, largest<T>(raw)), base = base_of(max);
            Exponential<T, Softmax> of(Softmax(), base);
            float sum = 0.0f; // of this trip: a long row's sum is one of sums
            exponentials(raw, of, [&](float e) { sum += e; });
            mine = {max, moved(Softmax(), mine.sum, mine.max, base) + sum * of.correction()};
            if constexpr (SMOOTH)
                all += sum_of<T, Mine::STEP>(raw, j, part.first, part.last, pivot);
        }
        row = exchange.of_row(Softmax(), rank, [&] { return over_warp(Softmax(), mine); });
        if constexpr (SMOOTH)
            mean = sum_of_row(exchange, rank, all) / cols;
    }

    Summary sums(row);
    if (threadIdx.x == 0 && target.lies_in(in, part, rank))
        sums.write(sums.loss<SMOOTH>(target, logit, mean, terms), target, terms, number, loss, lse);
    if constexpr (GRADIENT) {
        Slope<T> slope(sums, target, weight_of(weight, number, terms), cols, terms);
        for (int trip = trips - 1; trip >= 0; --trip) {
            int j = start + TRIP * trip;
            uint4 raw[EACH] = {};
            if (target.counts) // what does not count is 0 whatever it was
                load<Mine::STEP>(in, j, raw, part.last);
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                int k = j + Mine::STEP * i;
                uint4 vector = slope.vector(raw[i], in.head + k * WIDTH<T>);
                in.store(grad, k, part.first, part.last, vector);
            }
        }
        if (rank == 0)
            in.store_edge(grad, threadIdx.x, slope.element(edge, in.edge(threadIdx.x)));
    }
}
