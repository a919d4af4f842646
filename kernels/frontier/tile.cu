// tile: whole rows side by side in shared memory, brought and taken by the copy engine; LANES lanes
// a row.
//   moves    X once, Y once
//   launch   grid = tiles of ``tile`` rows, block = THREADS
//   holds    contiguous rows of LANES * EACH elements; Hopper and later
//   teaches  rows of no whole number of vectors are a whole number of them together
//   source   shared/KERNELS.md, T

#include "bulk.cuh"
#include "exact.cuh"

template <class T, int LANES, int THREADS, int EACH, bool INVARIANT, class... Given>
__global__ void __launch_bounds__(THREADS) softmax(const T *x, T *out, int cols, long long rows,
                                                   int tile, int log2_apart, Given... given) {
    extern __shared__ __align__(128) char shared[];
    __shared__ Barrier here;
    auto op = operator_of(given...);
    using Op = decltype(op);
    static_assert(!Op::TURNS, "elements lie in a tile without their columns");
    long long first = blockIdx.x * (long long)tile;
    int count = int(min((long long)tile, rows - first)), elements = count * cols;
    // All of the tile's elements as one row; in shared memory they lie by 16 bytes as in ``x``.
    await_turn();
    Row<T, 1> in(x + first * cols, elements);
    T *held = reinterpret_cast<T *>(shared) + (WIDTH<T> - in.head) % WIDTH<T>;
    unsigned bytes = in.vectors * 16;
    if (threadIdx.x == 0) {
        init(&here, 1);
        initialised();
        written();
        arrive_expecting(&here, bytes);
        if (bytes > 0)
            load_bulk(held + in.head, in.row + in.head, bytes, &here);
    }
    if (int j = in.edge(threadIdx.x); j >= 0)
        held[j] = in.row[j];
    __syncthreads();
    wait(&here, 0);

    // A warp's rows lie 2^log2_apart apart, where their elements meet in fewer banks than
    // neighbours' do.
    constexpr int TOGETHER = 32 / LANES;
    int lane = threadIdx.x % LANES, mine_of_warp = threadIdx.x % 32 / LANES << log2_apart;
    for (int turn = threadIdx.x / 32; turn * TOGETHER < tile; turn += THREADS / 32) {
        int within = turn & (1 << log2_apart) - 1;
        int row = (turn - within) * TOGETHER + mine_of_warp + within;
        T *mine = held + row * cols;
        float v[EACH], max = -CUDART_INF_F;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            int j = lane + LANES * i;
            v[i] = j < cols && row < count ? float(mine[j]) : -CUDART_INF_F;
            max = larger(max, v[i]);
        }
        max = max_over<LANES>(max);
        Exponential<T, Op> of(op, base_of(max));
        Sum<LANES, INVARIANT> sum;
#pragma unroll
        for (float &e : v)
            e = kept(e, of, [&](float e) { sum.add(e); });
        Results<T, Op> result(op, base_of(max), sum.of_row(max));
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (int j = lane + LANES * i; j < cols && row < count)
                mine[j] = T(result(v[i]));
    }

    written();
    __syncthreads();
    out += first * cols;
    if (past_boundary(out + in.head) == 0) {
        if (int j = in.edge(threadIdx.x); j >= 0)
            out[j] = held[j];
        if (threadIdx.x == 0 && bytes > 0)
            store_bulk(out + in.head, held + in.head, bytes);
    } else {
        for (int j = threadIdx.x; j < elements; j += THREADS)
            out[j] = held[j];
    }
}
