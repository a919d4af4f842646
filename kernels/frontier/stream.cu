// stream: a block per row, which reads the row twice: first its maximum and sum, then each vector
// again for its probabilities.  INVARIANT reads it three times: the sum waits for the maximum.
//   moves    X twice (INVARIANT: three times), Y once
//   launch   grid = rows, block = THREADS
//   holds    any row, on any GPU from Ampere on
//   teaches  what is left where no other regime holds a row
//   source   online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867

#include "exact.cuh"
#include "load.cuh"

constexpr int EACH = 4; // vectors on their way at once

template <class T, int THREADS, int EDGES, bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long,
            Given... given) {
    constexpr int WARPS = THREADS / 32;
    await_turn();
    auto op = operator_of(given...);
    using Op = decltype(op);
    op.go_to(blockIdx.x);
    using Mine = Share<EDGES, THREADS, EACH>;
    Row<T, EDGES> in(x + blockIdx.x * x_stride, out + blockIdx.x * out_stride, cols);
    int start = Mine::thread() - (EDGES ? in.lead() : 0);
    int lane = threadIdx.x % 32, number = threadIdx.x / 32;
    // All of this thread's vectors, EACH at a time; the lanes of a warp take the same trips.
    auto sweep = [&](auto visit) {
        for (int j = start; j - lane < in.vectors; j += THREADS * EACH) {
            uint4 raw[EACH];
            look<Mine::STEP>(op, in, j, raw);
            visit(j, raw);
        }
    };

    float edge = in.load_edge(threadIdx.x, op);
    __shared__ Partial of_warp[WARPS];
    Partial row;
    if constexpr (INVARIANT) {
        __shared__ Total of_warps[WARPS];
        float max = larger(edge, -CUDART_INF_F); // NaN in the form in which it is the largest
        sweep([&](int, const uint4(&raw)[EACH]) { max = larger(max, largest<T>(raw)); });
        if (float over = max_over<32>(max); lane == 0)
            of_warp[number].max = over;
        __syncthreads();
        max = max_over<32>(lane < WARPS ? of_warp[lane].max : -CUDART_INF_F);
        Exponential<T, Op> of(op, base_of(max));
        Exact of_edge;
        of_edge.add(of(edge));
        Total total = of_edge.total();
        sweep([&](int, const uint4(&raw)[EACH]) {
            Exact sum;
            exponentials(raw, of, [&](float e) { sum.add(e); });
            total += sum.total();
        });
        if (Total over = total_over<32>(total); lane == 0)
            of_warps[number] = over;
        __syncthreads();
        row = of_total(max, total_over<32>(lane < WARPS ? of_warps[lane] : 0));
    } else {
        Partial mine = {edge, edge == -CUDART_INF_F ? 0.0f : 1.0f};
        sweep([&](int, const uint4(&raw)[EACH]) {
            float max = larger(mine.max, largest<T>(raw)), base = base_of(max);
            Exponential<T, Op> of(op, base);
            float sum = 0.0f; // of this trip: a long row's sum is one of sums
            exponentials(raw, of, [&](float e) { sum += e; });
            mine = {max, moved(op, mine.sum, mine.max, base) + sum * of.correction()};
        });
        if (Partial over = over_warp(op, mine); lane == 0)
            of_warp[number] = over;
        __syncthreads();
        row = over_warp(op, lane < WARPS ? of_warp[lane] : no_partial());
    }

    Probability<T, INVARIANT, Op> of(op, base_of(row.max), row.sum);
    out += blockIdx.x * out_stride;
    sweep([&](int j, const uint4(&raw)[EACH]) {
        probabilities(raw, of, [&](int i, uint4 vector) {
            in.store(out, j + Mine::STEP * i, 0, in.vectors, vector);
        });
    });
    in.store_edge(out, threadIdx.x, of(edge));
}
