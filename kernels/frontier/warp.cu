// warp: LANES lanes a row, the row in their registers; THREADS / LANES rows a block.
//   moves    X once, Y once
//   launch   grid = rows * LANES / THREADS, block = THREADS
//   holds    LANES * VECTORS vectors of 16 bytes; with edges LANES is 8 or more, of 16 bits 16
//   teaches  short rows need no barrier: the bytes in flight come from many rows at once
//   source   warp rows as in PyTorch's softmax; shared/KERNELS.md, W

#include "exact.cuh"
#include "load.cuh"

template <class T, int LANES, int THREADS, int VECTORS, int EDGES, bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long rows,
            Given... given) {
    await_turn();
    long long row = blockIdx.x * static_cast<long long>(THREADS / LANES) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    bool mine = row < rows; // lanes without a row shuffle all the same
    long long there = mine ? row : 0;
    Row<T, EDGES> in(x + there * x_stride, out + there * out_stride, cols);

    uint4 raw[VECTORS];
    auto op = operator_of(given...);
    using Op = decltype(op);
    op.go_to(there);
    look<LANES>(op, in, lane, raw);
    float edge = in.load_edge(lane, op);

    float max = max_over<LANES>(larger(largest<T>(raw), edge));
    Exponential<T, Op> of(op, base_of(max));
    Sum<LANES, INVARIANT> sum;
    auto add = [&](float e) { sum.add(e); };
    float v[VECTORS][WIDTH<T>];
    edge = kept(edge, of, add);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        unpack<T>(raw[i], v[i]);
#pragma unroll
        for (float &e : v[i])
            e = kept(e, of, add);
    }
    Results<T, Op> result(op, base_of(max), sum.of_row(max));

    if (mine)
        out += row * out_stride;
    int last = mine ? in.vectors : 0;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (float &e : v[i])
            e = result(e);
        in.store(out, lane + LANES * i, 0, last, pack<T>(v[i]));
    }
    if (mine)
        in.store_edge(out, lane, result(edge));
}
