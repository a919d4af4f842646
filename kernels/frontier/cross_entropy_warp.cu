// cross_entropy_warp: a row's loss and lse, and with GRADIENT its gradient, by LANES lanes, in
// whose registers the row lies, as it came; THREADS / LANES rows a block.
//   moves    X once (GRADIENT: the gradient once); of each row a target, a weight, the loss and lse
//   launch   grid = rows * LANES / THREADS, block = THREADS
//   holds    LANES * VECTORS vectors of 16 bytes; with edges LANES is 8 or more, of 16 bits 16
//   teaches  rows of few classes share a warp
//   source   own, after warp.cu

#include "cross_entropy.cuh"

template <class T, class Index, int LANES, int THREADS, int VECTORS, int EDGES, bool GRADIENT,
          bool SMOOTH>
__global__ void __launch_bounds__(THREADS)
    cross_entropy(const T *x, T *grad, const Index *targets, const float *weight, float *loss,
                  float *lse, long long x_stride, long long grad_stride, int cols, long long rows,
                  Terms terms) {
    await_turn();
    long long number = blockIdx.x * static_cast<long long>(THREADS / LANES) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    bool mine = number < rows; // lanes without a row shuffle all the same
    number = mine ? number : 0;
    x += number * x_stride;
    grad += GRADIENT ? number * grad_stride : 0;
    Target target(targets, number, cols, terms);
    Row<T, EDGES> in(x, grad, cols);

    // Of a row that is skipped no vector is loaded.
    uint4 raw[VECTORS];
    bool read = !target.skips(terms);
    load<LANES>(in, lane, raw, read ? ALL : 0);
    float edge = read ? in.load_edge(lane, Softmax()) : -CUDART_INF_F;
    float logit = target.logit(x), mean = 0.0f;

    float max = max_over<LANES>(larger(largest<T>(raw), edge)), sum = 0.0f;
    Exponential<T, Softmax> of(Softmax(), base_of(max));
    exponentials(raw, of, [&](float e) { sum += e; });
    sum += of(edge);
    if constexpr (SMOOTH) {
        float pivot = pivot_of(logit);
        float all = sum_of<T, LANES>(raw, lane, 0, read ? in.vectors : 0, pivot);
        all += read && in.edge(lane) >= 0 ? edge - pivot : 0.0f;
        mean = sum_over<LANES>(all) / cols;
    }
    Summary sums({max, sum_over<LANES>(sum) * of.correction()});
    __syncwarp(); // every lane has read the logit, in whose place one may write the gradient
    if (!mine)
        return;
    if (lane == 0)
        sums.write(sums.loss<SMOOTH>(target, logit, mean, terms), target, terms, number, loss, lse);
    if constexpr (GRADIENT) {
        Slope<T> slope(sums, target, weight_of(weight, number, terms), cols, terms);
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            int k = lane + LANES * i;
            uint4 vector = slope.vector(raw[i], in.head + k * WIDTH<T>);
            in.store(grad, k, 0, in.vectors, vector);
        }
        in.store_edge(grad, lane, slope.element(edge, in.edge(lane)));
    }
}
