// shuffle: reductions over a warp by butterfly, over a block by one value a warp in between.
#pragma once

constexpr unsigned EVERY_LANE = 0xffffffff;

// Op over the ``lanes`` (a power of two) neighbours of each lane.
template <class Op> __device__ float over_lanes(float v, int lanes = 32) {
    for (int step = lanes / 2; step > 0; step /= 2)
        v = Op::of(v, __shfl_xor_sync(EVERY_LANE, v, step));
    return v;
}

// Op over all threads of a block, whose warps are a power of two.
template <class Op> __device__ float over_block(float v) {
    __shared__ float of_warp[32];
    int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    v = over_lanes<Op>(v);
    if (lane == 0)
        of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = over_lanes<Op>(of_warp[lane % warps], warps);
    __syncthreads(); // of_warp is free again
    return v;
}
