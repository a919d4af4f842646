// cross_entropy_scale: rows times one number that lies in the GPU's memory, where they are; where
// it is 1, as it is in most training, they are not touched.
//   moves    X once, Y once; the number alone where it is 1
//   launch   grid = some blocks, which share the rows, block = THREADS
//   holds    any rows
//   teaches  a kernel that finds nothing to do costs less than asking the host whether to launch it
//   source   own

#include "vectors.cuh"

template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS)
    cross_entropy_scale(T *x, const float *factor, long long stride, int cols, long long rows,
                        int blocks) {
    await_turn();
    float by = *factor;
    if (by == 1.0f)
        return;
    for (long long number = blockIdx.x; number < rows; number += blocks) {
        T *at = x + number * stride;
        Row<T, 1> row(at, cols);
        for (int k = int(threadIdx.x) - row.lead(); k < row.vectors; k += THREADS) {
            if (k < 0)
                continue;
            float v[WIDTH<T>];
            unpack<T>(row.body()[k], v);
#pragma unroll
            for (float &e : v)
                e *= by;
            row.store(at, k, 0, row.vectors, pack<T>(v));
        }
        if (int j = row.edge(threadIdx.x); j >= 0)
            at[j] = T(float(at[j]) * by);
    }
}
