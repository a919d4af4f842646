// warp: LANES lanes a row, the row in their registers; THREADS / LANES rows a block, or TOGETHER
// times as many, each group of lanes with a row of every THREADS / LANES.
//   moves    X once, Y once
//   launch   grid = rows * LANES / (THREADS * TOGETHER), block = THREADS
//   holds    LANES * VECTORS vectors of 16 bytes; with edges LANES is 8 or more, of 16 bits 16
//   teaches  short rows need no barrier: the bytes in flight come from many rows at once
//   source   warp rows as in PyTorch's softmax; shared/KERNELS.md, W

#include "exact.cuh"
#include "load.cuh"

template <class T, int LANES, int THREADS, int TOGETHER, int VECTORS, int EDGES, bool EARLY,
          bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long rows,
            Given... given) {
    if constexpr (EARLY)
        await_turn();
    constexpr int APART = THREADS / LANES;
    long long first = blockIdx.x * static_cast<long long>(APART * TOGETHER) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    auto mine = [&](int r) { return first + APART * r < rows; };
    // Lanes without a row shuffle all the same.
    auto there = [&](int r) { return mine(r) ? first + APART * r : 0; };
    auto row_of = [&](int r) {
        return Row<T, EDGES>(x + there(r) * x_stride, out + there(r) * out_stride, cols);
    };

    uint4 raw[TOGETHER][VECTORS];
    float edges[TOGETHER];
    auto op = operator_of(given...);
    using Op = decltype(op);
#pragma unroll
    for (int r = 0; r < TOGETHER; ++r) {
        op.go_to(there(r));
        look<LANES>(op, row_of(r), lane, raw[r]);
        edges[r] = row_of(r).load_edge(lane, op);
    }

#pragma unroll
    for (int r = 0; r < TOGETHER; ++r) {
        Row<T, EDGES> in = row_of(r);
        float max = max_over<LANES>(larger(largest<T>(raw[r]), edges[r]));
        Exponential<T, Op> of(op, base_of(max));
        Sum<LANES, INVARIANT> sum;
        auto add = [&](float e) { sum.add(e); };
        float v[VECTORS][WIDTH<T>];
        float edge = kept(edges[r], of, add);
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            unpack<T>(raw[r][i], v[i]);
#pragma unroll
            for (float &e : v[i])
                e = kept(e, of, add);
        }
        Results<T, Op> result(op, base_of(max), sum.of_row(max));

        T *to = out + there(r) * out_stride;
        int last = mine(r) ? in.vectors : 0;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
            for (float &e : v[i])
                e = result(e);
            if constexpr (EDGES > 0)
                in.store_if(to, lane + LANES * i, last, pack<T>(v[i]));
            else
                in.store(to, lane + LANES * i, 0, last, pack<T>(v[i]));
        }
        if (mine(r))
            in.store_edge(to, lane, result(edge));
    }
}
