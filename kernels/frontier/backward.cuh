// backward: the gradient of a row, of a softmax dx = y (dy - sum(dy y)). Vectors are counted in y;
// dy and dx may lie otherwise between their boundaries, and then go element by element.
#pragma once
#include "reduce.cuh"

// A vector of y and the elements of dy beside it.
struct Pair {
    uint4 y, dy;
};

// The edges' element of a thread, if it has one, and dy's beside it.
template <class T> struct EdgePair {
    int column; // -1: none
    T y, dy;
};

// What the row's sum is of, and what it makes of an element.
struct OfSoftmax {
    __device__ float term(float y, float dy) const { return y * dy; }
    __device__ float result(float y, float dy, float sum) const { return y * (dy - sum); }
};

// The same of y = a softmax(s x): with p = y / a, dx = s y (dy - sum(dy y) / a).
struct OfFactors {
    float outer, inner; // s, 1 / a

    __device__ float term(float y, float dy) const { return y * dy; }
    __device__ float result(float y, float dy, float sum) const {
        return outer * y * (dy - inner * sum);
    }
};

// Of y = a log_softmax(s x), dx = s a (dy - exp(y / a) sum(dy)).  HIDES: what a mask made -inf has
// no gradient; without a mask -inf has PyTorch's.
template <bool HIDES> struct OfLogarithm {
    float outer, inner; // s a, log2(e) / a

    __device__ float term(float, float dy) const { return dy; }
    __device__ float result(float y, float dy, float sum) const {
        float of_log = y * inner;
        if (HIDES && of_log == -CUDART_INF_F)
            return 0.0f;
        return outer * (dy - exp2_fast(of_log) * sum);
    }
};

__device__ inline OfSoftmax gradient_of() { return {}; }
template <class Op> __device__ Op gradient_of(Op op) { return op; }

template <class T, int EDGES, class Op> struct Gradient {
    Op op;
    Row<T, EDGES> row;
    const T *dy;
    T *dx;
    bool dy_alike, dx_alike;

    __device__ Gradient(Op op, const T *y, const T *dy, T *dx, int cols)
        : op(op), row(y, cols), dy(dy), dx(dx), dy_alike(past_boundary(dy + row.head) == 0),
          dx_alike(past_boundary(dx + row.head) == 0) {}

    __device__ bool dy_whole() const { return !EDGES || dy_alike; }
    __device__ const T *dy_from(int i) const { return dy + row.head + i * WIDTH<T>; }

    // What lies beside vector i of y, element by element.
    __device__ uint4 dy_apart(int i) const {
        T each[WIDTH<T>];
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            each[e] = dy_from(i)[e];
        uint4 vector;
        memcpy(&vector, each, sizeof each);
        return vector;
    }

    // Vector i of the row of y, and dy's; 0 outside.
    __device__ Pair load(int i) const {
        Pair both = {};
        if (unsigned(i) >= unsigned(row.vectors))
            return both;
        both.y = row.body()[i];
        both.dy = dy_whole() ? *reinterpret_cast<const uint4 *>(dy_from(i)) : dy_apart(i);
        return both;
    }

    // The edges' element of thread ``lane``, where ``mine``.  To be loaded with the vectors: asked
    // for behind their sum it has its row wait for memory twice, and once more if it is not kept
    // until it is stored, where an exchange has emptied the L1.
    __device__ EdgePair<T> load_edge(int lane, bool mine = true) const {
        EdgePair<T> both = {-1, T(0.0f), T(0.0f)};
        if constexpr (EDGES)
            if (int j = row.edge(lane); mine && j >= 0)
                both = {j, row.row[j], dy[j]};
        return both;
    }

    // What it adds to the row's sum.
    __device__ float edge_term(EdgePair<T> both) const {
        if constexpr (EDGES)
            if (both.column >= 0)
                return op.term(float(both.y), float(both.dy));
        return 0.0f;
    }

    // AGAIN: unpacked by other instructions than for the sum, or the compiler keeps those floats.
    template <bool AGAIN = false> __device__ void store(int i, Pair both, float sum) const {
        if (unsigned(i) >= unsigned(row.vectors))
            return;
        float v[WIDTH<T>], g[WIDTH<T>];
        if constexpr (AGAIN) {
            unpack_again<T>(both.y, v);
            unpack_again<T>(both.dy, g);
        } else {
            unpack<T>(both.y, v);
            unpack<T>(both.dy, g);
        }
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            v[e] = op.result(v[e], g[e], sum);
        T *to = dx + row.head + i * WIDTH<T>;
        if (!EDGES || dx_alike) {
            *reinterpret_cast<uint4 *>(to) = pack<T>(v);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            to[e] = T(v[e]);
    }

    __device__ void store_edge(EdgePair<T> both, float sum) const {
        if constexpr (EDGES)
            if (both.column >= 0)
                dx[both.column] = T(op.result(float(both.y), float(both.dy), sum));
    }
};

// The sum over N vectors.
template <class T, class Op, int N> __device__ float terms(Op op, const Pair (&held)[N]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float v[WIDTH<T>], g[WIDTH<T>];
        unpack<T>(held[i].y, v);
        unpack<T>(held[i].dy, g);
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            sum += op.term(v[e], g[e]);
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
