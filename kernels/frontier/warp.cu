// warp: LANES lanes a row, the row in their registers; 128 / LANES rows a block.
//   moves    X once, Y once
//   launch   grid = rows * LANES / 128, block = 128
//   holds    LANES * VECTORS vectors of 16 bytes; with edges LANES is 8 or more, of 16 bits 16
//   teaches  short rows need no barrier: the bytes in flight come from many rows at once
//   source   warp rows as in PyTorch's softmax; shared/KERNELS.md, W

#include "reduce.cuh"
#include "vectors.cuh"

template <class T, int LANES, int VECTORS, bool EDGES>
__global__ void __launch_bounds__(128) softmax(const T *x, T *out, long long x_stride,
                                               long long out_stride, int cols, long long rows) {
    long long row = blockIdx.x * (128ll / LANES) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES;
    bool mine = row < rows; // lanes without a row shuffle all the same
    Row<T, EDGES> in(x + (mine ? row : 0) * x_stride, cols);

    uint4 raw[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
        raw[i] = in.load(lane + LANES * i);
    float edge = in.load_edge(lane);

    float base = base_of(max_over<LANES>(fmaxf(largest<T>(raw), edge)));
    float v[VECTORS][WIDTH<T>], sum = edge = exp2_fast((edge - base) * LOG2E);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        unpack<T>(raw[i], v[i]);
#pragma unroll
        for (float &e : v[i])
            sum += e = exp2_fast((e - base) * LOG2E);
    }
    float scale = 1.0f / sum_over<LANES>(sum);

    if (!mine)
        return;
    out += row * out_stride;
    bool alike = in.alike(out);
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (float &e : v[i])
            e *= scale;
        in.store(out, lane + LANES * i, v[i], alike);
    }
    in.store_edge(out, lane, edge * scale);
}
