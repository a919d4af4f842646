// cross_entropy_held: a row's loss, lse and gradient by a block, or a cluster of BLOCKS blocks, in
// whose registers the row lies, as it came; the gradient may go where the row is.
//   moves    X once, the gradient once; of each row a target, a weight, the loss and lse
//   launch   grid = rows * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    BLOCKS * THREADS * VECTORS vectors of 16 bytes; BLOCKS > 1: Hopper and later
//   teaches  a gradient of which all is known once the sum is needs no second look from memory
//   source   own, after block.cu and cluster.cu; the gradient in the forward pass: Liger kernel,
//            Hsu et al. 2024, arXiv:2410.10989

#include "cross_entropy.cuh"

template <class T, class Index, int THREADS, int VECTORS, int BLOCKS, int LEAST, int EDGES,
          bool SMOOTH>
__global__ void __launch_bounds__(THREADS, LEAST)
    cross_entropy(const T *x, T *grad, const Index *targets, const float *weight, float *loss,
                  float *lse, long long x_stride, long long grad_stride, int cols, long long,
                  Terms terms) {
    await_turn();
    int rank = blockIdx.x % BLOCKS;
    long long number = blockIdx.x / BLOCKS;
    x += number * x_stride;
    grad += number * grad_stride;
    Target target(targets, number, cols, terms);
    Row<T, EDGES> in(x, grad, cols);
    Portion part(in, rank, BLOCKS);
    using Mine = Share<EDGES, THREADS, VECTORS>;
    int start = part.start + Mine::thread();

    Partial row = no_partial();
    Held<T, VECTORS, true, Softmax> held{Softmax()};
    float logit = CUDART_NAN_F, mean = 0.0f;
    // All blocks of a cluster have one target: none of them waits for one that skips.
    if (!target.skips(terms)) {
        load<Mine::STEP>(in, start, held.raw, part.last);
        held.edge = rank == 0 ? in.load_edge(threadIdx.x, Softmax()) : -CUDART_INF_F;
        logit = target.logit(x);
        __shared__ Exchange<BLOCKS, THREADS / 32, SMOOTH ? 2 : 1> exchange;
        exchange.begin();
        float sum = 0.0f;
        if constexpr (SMOOTH) {
            float pivot = pivot_of(logit);
            sum = sum_of<T, Mine::STEP>(held.raw, start, part.first, part.last, pivot);
            sum += rank == 0 && in.edge(threadIdx.x) >= 0 ? held.edge - pivot : 0.0f;
            forget(held.raw);
        }
        row = exchange.of_row(Softmax(), rank, [&] { return held.over_warp(); });
        if constexpr (SMOOTH)
            mean = sum_of_row(exchange, rank, sum) / cols;
    }

    forget(held.raw);
    Summary sums(row);
    if (threadIdx.x == 0 && target.lies_in(in, part, rank))
        sums.write(sums.loss<SMOOTH>(target, logit, mean, terms), target, terms, number, loss, lse);
    Slope<T> slope(sums, target, weight_of(weight, number, terms), cols, terms);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        int k = start + Mine::STEP * i;
        uint4 vector = slope.vector(held.raw[i], in.head + k * WIDTH<T>);
        in.store(grad, k, part.first, part.last, vector);
    }
    if (rank == 0)
        in.store_edge(grad, threadIdx.x, slope.element(held.edge, in.edge(threadIdx.x)));
}
