// cross_entropy_targets: of all targets, 1 / the number of those that count, and the first one that
// is no column of its row; so neither needs the host to wait.
//   moves    all targets once, two numbers
//   launch   grid = 1, block = THREADS
//   holds    any number of targets
//   teaches  one block is enough for what is thousands of times less than the rows
//   source   own

#include "reduce.cuh"

constexpr int EACH = 8; // loads of a thread on their way at once

template <class Index, int THREADS>
__global__ void __launch_bounds__(THREADS)
    cross_entropy_targets(const Index *targets, float *weight, long long *wrong, long long rows,
                          long long cols, long long ignored) {
    constexpr int WARPS = THREADS / 32;
    constexpr long long NONE = 0x7fffffffffffffff;
    await_turn();
    long long count = 0, first = NONE;
    for (long long row = threadIdx.x; row < rows; row += THREADS * EACH) {
        long long given[EACH];
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            given[i] = row + THREADS * i < rows ? targets[row + THREADS * i] : ignored;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            bool counts = given[i] != ignored;
            count += counts;
            if (counts && (given[i] < 0 || given[i] >= cols))
                first = min(first, row + THREADS * i);
        }
    }
    __shared__ long long counts[THREADS], firsts[THREADS];
    counts[threadIdx.x] = count;
    firsts[threadIdx.x] = first;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
#pragma unroll
    for (int i = 1; i < WARPS; ++i) {
        count += counts[threadIdx.x + 32 * i];
        first = min(first, firsts[threadIdx.x + 32 * i]);
    }
    counts[threadIdx.x] = count;
    firsts[threadIdx.x] = first;
    __syncwarp();
    if (threadIdx.x > 0)
        return;
    for (int i = 1; i < 32; ++i) {
        count += counts[i];
        first = min(first, firsts[i]);
    }
    *weight = 1.0f / float(count);
    *wrong = first == NONE ? -1 : first;
}
