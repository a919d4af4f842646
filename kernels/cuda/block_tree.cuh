// block_tree: reductions over the threads of a block by a tree in shared memory.
#pragma once

struct Sum {
    __device__ static float of(float a, float b) { return a + b; }
};

struct Max {
    // fmaxf drops NaN; the sum of exponentials that follows every maximum brings it back.
    __device__ static float of(float a, float b) { return fmaxf(a, b); }
};

// Op over one value a thread, for all threads.  blockDim.x is a power of two; shared holds
// blockDim.x floats and is free again on return.
template <class Op> __device__ float reduce(float mine, float *shared) {
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] = Op::of(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    float all = shared[0];
    __syncthreads();
    return all;
}
