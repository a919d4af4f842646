// backward: dx = y (dy - sum(dy y)) of a row. Vectors are counted in y; dy and dx may lie otherwise
// between their boundaries, and then go element by element.
#pragma once
#include "reduce.cuh"

// A vector of y and the elements of dy beside it.
struct Pair {
    uint4 y, dy;
};

template <class T, int EDGES> struct Gradient {
    Row<T, EDGES> row;
    const T *dy;
    T *dx;
    bool dy_alike, dx_alike;

    __device__ Gradient(const T *y, const T *dy, T *dx, int cols)
        : row(y, cols), dy(dy), dx(dx), dy_alike(past_boundary(dy + row.head) == 0),
          dx_alike(past_boundary(dx + row.head) == 0) {}

    // Vector i of the row of y, and dy's; 0 outside.
    __device__ Pair load(int i) const {
        Pair both = {};
        if (unsigned(i) >= unsigned(row.vectors))
            return both;
        both.y = row.body()[i];
        const T *from = dy + row.head + i * WIDTH<T>;
        if (!EDGES || dy_alike) {
            both.dy = *reinterpret_cast<const uint4 *>(from);
        } else {
            T each[WIDTH<T>];
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e)
                each[e] = from[e];
            memcpy(&both.dy, each, sizeof each);
        }
        return both;
    }

    // What the edges' element of thread ``lane`` adds to the row's sum.
    __device__ float edge(int lane) const {
        if constexpr (EDGES)
            if (int j = row.edge(lane); j >= 0)
                return float(row.row[j]) * float(dy[j]);
        return 0.0f;
    }

    __device__ void store(int i, Pair both, float sum) const {
        if (unsigned(i) >= unsigned(row.vectors))
            return;
        float v[WIDTH<T>], g[WIDTH<T>];
        unpack<T>(both.y, v);
        unpack<T>(both.dy, g);
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            v[e] *= g[e] - sum;
        T *to = dx + row.head + i * WIDTH<T>;
        if (!EDGES || dx_alike) {
            *reinterpret_cast<uint4 *>(to) = pack<T>(v);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            to[e] = T(v[e]);
    }

    __device__ void store_edge(int lane, float sum) const {
        if constexpr (EDGES)
            if (int j = row.edge(lane); j >= 0)
                dx[j] = T(float(row.row[j]) * (float(dy[j]) - sum));
    }
};

// Sum of dy y over N vectors.
template <class T, int N> __device__ float products(const Pair (&held)[N]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float v[WIDTH<T>], g[WIDTH<T>];
        unpack<T>(held[i].y, v);
        unpack<T>(held[i].dy, g);
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            sum += v[e] * g[e];
    }
    return sum;
}

// The sum over a block's threads, in all of them.
template <int THREADS> __device__ float sum_over_block(float mine) {
    __shared__ float of_warp[THREADS / 32];
    mine = sum_over<32>(mine);
    int lane = threadIdx.x % 32;
    if (lane == 0)
        of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    return sum_over<32>(lane < THREADS / 32 ? of_warp[lane] : 0.0f);
}
