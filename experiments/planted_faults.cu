// A fault for each tool of Compute Sanitizer to find: a tool that finds none of them looked at
// nothing, and its silence about other kernels says nothing either.

enum Fault { OUTSIDE, RACE, BARRIER };

template <Fault FAULT> __global__ void softmax(float *out) {
    __shared__ float shared[64];
    int thread = threadIdx.x;
    if (FAULT == OUTSIDE)
        out[64 + thread] = 1.0f; // there are 64 elements
    if (FAULT == RACE) {
        shared[thread] = out[thread];
        out[thread] = shared[63 - thread]; // of the other warp, which nothing waited for
    }
    if (FAULT == BARRIER && thread <= 16)
        __syncwarp(0xffff); // thread 16 is not among those that it names
}
