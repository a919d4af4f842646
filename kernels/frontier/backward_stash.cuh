// backward_stash: of a block's share the vectors that its threads' registers have no room for: in
// shared memory, where the copy engine puts them, past the L1, in which the others' loads wait.
#pragma once
#include "backward.cuh"
#include "bulk.cuh"

// N vectors of y for each thread, and as many of dy.  Loops over them are not unrolled: the
// compiler would read them all before it stores the first, into registers that there are none of.
template <int THREADS, int N, int EDGES> struct Stash {
    uint4 *y, *dy;
    Barrier *filled;

    __device__ Stash() {
        extern __shared__ uint4 image[];
        __shared__ Barrier barrier;
        y = image;
        dy = image + N * THREADS;
        filled = &barrier;
        if constexpr (N > 0) {
            if (threadIdx.x == 0) {
                init(filled, 1);
                initialised();
                written(); // the copy engine counts there; no loads are on their way
            }
            __syncwarp(); // it and its first arrival are one thread's: exchange.cuh
        }
    }

    // Every thread: from ``first`` on the vectors of ``at`` that lie before ``last``.
    template <class T, class Op>
    __device__ void fetch(const Gradient<T, EDGES, Op> &at, int first, int last) const {
        if constexpr (N > 0) {
            int count = max(0, min(last - first, N * THREADS));
            unsigned bytes = count * sizeof(uint4);
            if (threadIdx.x == 0) {
                arrive_expecting(filled, at.dy_whole() ? 2 * bytes : bytes);
                if (count > 0) {
                    load_bulk(y, at.row.body() + first, bytes, filled);
                    if (at.dy_whole())
                        load_bulk(dy, at.dy_from(first), bytes, filled);
                }
            }
            if (!at.dy_whole()) // each its own
                for (int i = threadIdx.x; i < count; i += THREADS)
                    dy[i] = at.dy_apart(first + i);
        }
    }

    // Every thread, as soon as all loads are on their way: the barrier is there.
    __device__ void ready() const {
        if constexpr (N > 0)
            __syncthreads();
    }

    // Until what was fetched is there, for the first time, the second, ...
    __device__ void await(int time = 0) const {
        if constexpr (N > 0)
            wait(filled, time % 2);
    }

    // Every thread, when it has read its pairs: more may be fetched.
    __device__ void leave() const {
        if constexpr (N > 0) {
            if constexpr (EDGES)
                written(); // what a thread wrote, the copy engine may write again
            __syncthreads();
        }
    }

    __device__ Pair operator[](int i) const {
        int mine = THREADS * i + threadIdx.x;
        return {y[mine], dy[mine]};
    }

    // The sum over a thread's, which are vectors k, k + THREADS, ... before ``last``.
    template <class T, class Op> __device__ float terms(Op op, int k, int last) const {
        float sum = 0.0f;
#pragma unroll 1
        for (int i = 0; i < N; ++i) {
            Pair one[] = {k + THREADS * i < last ? (*this)[i] : Pair{}};
            sum += ::terms<T>(op, one);
        }
        return sum;
    }
};
