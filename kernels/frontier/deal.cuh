// deal: what the blocks of a launch that deals rows out in chunks have in common: where a chunk
// lies, and how the pairs of a row's tickets meet in global memory.
//   source   shared/KERNELS.md, Dc: words that carry the launch's number need no fence
#pragma once
#include "exact.cuh"
#include "load.cuh"

// A pair of a ticket, each half beside the launch's number: who sees the number sees the half.
struct Posted {
    unsigned long long max, sum;
};

struct Scratch {
    unsigned launches, done, ticket, unused;
    Posted posted[1]; // rows x tickets of a row; INVARIANT: twice, maxima before totals
};

__device__ inline unsigned long long beside(unsigned number, float v) {
    return static_cast<unsigned long long>(number) << 32 | __float_as_uint(v);
}

__device__ inline void post(Posted *to, unsigned number, Partial p) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
                 "l"(beside(number, p.max)), "l"(beside(number, p.sum))
                 : "memory");
}

// How pairs become one: of a maximum and a sum, or of a total.
template <bool TOTAL, class Op> struct Merge {
    Op op;

    __device__ Partial none() const { return no_partial(); }
    __device__ Partial over_warp(Partial mine) const { return ::over_warp(op, mine); }
    template <int N> __device__ Partial all(Partial (&some)[N]) const {
        float max = some[0].max, sum = 0.0f;
#pragma unroll
        for (int i = 1; i < N; ++i)
            max = larger(max, some[i].max);
        float base = base_of(max);
#pragma unroll
        for (int i = 0; i < N; ++i)
            sum += moved(op, some[i].sum, some[i].max, base);
        return {max, sum};
    }
};

template <class Op> struct Merge<true, Op> {
    Op op;

    __device__ Partial none() const { return as_partial(0); }
    __device__ Partial over_warp(Partial mine) const {
        return as_partial(total_over<32>(as_total(mine)));
    }
    template <int N> __device__ Partial all(Partial (&some)[N]) const {
        Total total = 0;
#pragma unroll
        for (int i = 0; i < N; ++i)
            total += as_total(some[i]);
        return as_partial(total);
    }
};

// A lane's part of ``count`` tickets' pairs, once they are all posted: EACH of them on their way at
// once, since each takes the time to the L2 and back.
template <int EACH, class Merge>
__device__ Partial collect(const Merge &merge, const Posted *posted, int count, unsigned number) {
    Partial some[EACH + 1];
    some[EACH] = merge.none();
    for (int first = threadIdx.x % 32; first < count; first += 32 * EACH) {
        unsigned long long max[EACH], sum[EACH];
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                max[i] = beside(number, merge.none().max);
                sum[i] = beside(number, merge.none().sum);
                if (first + 32 * i < count)
                    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                                 : "=l"(max[i]), "=l"(sum[i])
                                 : "l"(posted + first + 32 * i)
                                 : "memory");
            }
#pragma unroll
            for (int i = 0; i < EACH; ++i)
                missing |= max[i] >> 32 != number || sum[i] >> 32 != number;
        } while (missing);
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            some[i] = {__uint_as_float(unsigned(max[i])), __uint_as_float(unsigned(sum[i]))};
        some[EACH] = merge.all(some);
    }
    return some[EACH];
}

// A chunk of a row: vectors ``first`` to before ``last``, the first of them ``offset`` vectors into
// its slot, so that all chunks but the first start with a line.
template <class T, int EDGES> struct Chunk {
    Row<T, EDGES> row;
    int number, start, first, last;

    __device__ Chunk(const T *x, const T *out, int cols, int number, int vectors)
        : row(x, out, cols), number(number) {
        start = number * vectors - row.lead();
        first = max(0, start);
        last = min(row.vectors, start + vectors);
    }

    __device__ int offset() const { return first - start; }
    // Vectors of the input that hold the chunk's: one more where boundaries lie apart.
    __device__ int size() const {
        int own = max(0, last - first);
        return EDGES == 2 && own > 0 && row.past > 0 ? own + 1 : own;
    }

    // Vectors thread, thread + THREADS, ... of the slot; -inf where they are not the chunk's.
    template <int THREADS, int N>
    __device__ void load(const uint4 *slot, int thread, uint4 (&raw)[N]) const {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            int at = thread + THREADS * i, k = start + at;
            bool mine = k >= first && k < last;
            raw[i] = mine ? slot[at] : nothing<T>();
            if constexpr (EDGES == 2)
                if (mine)
                    raw[i] = shifted<T>(raw[i], slot[at + 1], row.past * int(sizeof(T)));
        }
    }

    // The thread of the row's edges: they go with chunk 0.
    __device__ int edge_thread(int thread) const { return number == 0 ? thread : 1 << 20; }
};

// The place in a ring of SLOTS, and the parity of its barriers this time round.
template <int SLOTS> struct Place {
    int slot = 0;
    unsigned parity = 0;

    __device__ void next() {
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};
