// online: a running maximum and the sum of exponentials relative to it.
//   source   Milakov and Gimelshein 2018, arXiv:1805.02867
#pragma once
#include "exponential.cuh"
#include "shuffle.cuh"

struct Partial {
    float max, sum; // EMPTY to begin with

    __device__ void add(float v) {
        float top = fmaxf(max, v); // drops NaN, which the exponential brings back
        sum = sum * exponential(max - top) + exponential(v - top);
        max = top;
    }

    __device__ void add(float4 v) {
        add(v.x);
        add(v.y);
        add(v.z);
        add(v.w);
    }

    __device__ void merge(Partial other) {
        float top = fmaxf(max, other.max);
        sum = sum * exponential(max - top) + other.sum * exponential(other.max - top);
        max = top;
    }
};

constexpr Partial EMPTY{LOWEST, 0.0f};

// The partials of ``lanes`` (a power of two) neighbours of each lane in one.
__device__ inline Partial over_lanes(Partial mine, int lanes = 32) {
    for (int step = lanes / 2; step > 0; step /= 2) {
        mine.merge({__shfl_xor_sync(EVERY_LANE, mine.max, step),
                    __shfl_xor_sync(EVERY_LANE, mine.sum, step)});
    }
    return mine;
}

// The partials of all threads of a block, whose warps are a power of two; once a kernel.
__device__ inline Partial over_block(Partial mine) {
    __shared__ float max_of_warp[32], sum_of_warp[32];
    int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    mine = over_lanes(mine);
    if (lane == 0) {
        max_of_warp[threadIdx.x / 32] = mine.max;
        sum_of_warp[threadIdx.x / 32] = mine.sum;
    }
    __syncthreads();
    return over_lanes({max_of_warp[lane % warps], sum_of_warp[lane % warps]}, warps);
}
