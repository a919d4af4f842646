// block: a block per row, the row in its registers, one barrier.
//   moves    X once, Y once
//   launch   grid = rows, block = THREADS, at least BLOCKS of them a multiprocessor
//   holds    THREADS * VECTORS vectors of 16 bytes, and the row's edges
//   teaches  hardware that hands out blocks balances the multiprocessors better than a loop does
//   source   the row in registers as in S5; one exchange of (max, sum); shared/KERNELS.md, B and Bp

#include "held.cuh"

template <class T, int THREADS, int VECTORS, int BLOCKS, bool RAW, bool EDGES>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, long long) {
    Row<T, EDGES> in(x + blockIdx.x * x_stride, cols);
    int start = int(threadIdx.x) - (EDGES ? in.lead() : 0);
    Held<T, VECTORS, RAW> held;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        held.raw[i] = in.load(start + THREADS * i);
    held.edge = in.load_edge(threadIdx.x);

    Partial warp = held.over_warp();
    __shared__ Partial of_warp[THREADS / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0)
        of_warp[threadIdx.x / 32] = warp;
    __syncthreads();
    Partial row = over_warp(lane < THREADS / 32 ? of_warp[lane] : no_partial());

    out += blockIdx.x * out_stride;
    bool alike = in.alike(out);
    float edge = held.results(row, [&](int i, const float (&v)[WIDTH<T>]) {
        in.store(out, start + THREADS * i, v, alike);
    });
    in.store_edge(out, threadIdx.x, edge);
}
