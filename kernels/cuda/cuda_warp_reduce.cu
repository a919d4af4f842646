// cuda_warp_reduce: cuda_float4 with reductions by warp shuffles for those by a tree.
//   moves    X twice, Y written, read back and written again
//   launch   grid = rows, block = 512 or 1024 (above 14,080 columns)
//   holds    float32, any cols, any row stride and start: rows off 16 bytes go element by element
//   teaches  ten barriers fewer a reduction, where a row lasts longer than its barriers
//   source   S4, last step (of which the publication shows the plot alone)

#include "block_tree.cuh"
#include "shuffle.cuh"
#include "vectors.cuh"

template <class T>
__global__ void softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols) {
    x += blockIdx.x * x_stride;
    out += blockIdx.x * out_stride;
    int first = 4 * threadIdx.x, step = 4 * blockDim.x;

    float peak = -CUDART_INF_F;
    for (int j = first; j < cols; j += step)
        peak = fmaxf(peak, largest(load(x, j, cols, on_16_bytes(x))));
    peak = over_block<Max>(peak);

    float sum = 0.0f;
    for (int j = first; j < cols; j += step) {
        float4 v = load(x, j, cols, on_16_bytes(x));
        v = {expf(v.x - peak), expf(v.y - peak), expf(v.z - peak), expf(v.w - peak)};
        sum += total(v);
        store(out, j, cols, on_16_bytes(out), v);
    }
    sum = over_block<Sum>(sum);

    // A thread reads back only what it wrote itself: the same share, so no fence is needed.
    for (int j = first; j < cols; j += step) {
        float4 v = load(out, j, cols, on_16_bytes(out));
        store(out, j, cols, on_16_bytes(out), {v.x / sum, v.y / sum, v.z / sum, v.w / sum});
    }
}
