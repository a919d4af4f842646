// chunks: rows in chunks, dealt to one block a multiprocessor by tickets; a chunk waits in a ring
// of shared memory until all of its row has been seen.
//   moves    X once, Y once
//   launch   cooperative, grid = multiprocessors, REDUCERS + WRITERS + 3 warps a block
//   holds    rows that the rings of all blocks hold together; Hopper and later
//   teaches  work that is dealt out, not divided, lets fast multiprocessors take more of it
//   source   shared/KERNELS.md, Dc
//
// The warps of a block pass each slot of the ring on:
//   dealer    takes a ticket (``together`` chunks of a row) once as many slots are free; loads them
//   reducers  maximum and sum of a chunk                                         [full]
//   poster    makes one pair of a ticket's chunks and posts it in global memory  [reduced]
//   gatherer  waits until all tickets of the row are posted; makes them one      [full]
//   writers   the chunk's probabilities                                          [ready]
// A ticket is only taken with room for all its chunks, so what is taken is posted without waiting
// for anybody; gatherers wait for tickets of one row at most, which the rings of all blocks hold.

#include "bulk.cuh"
#include "reduce.cuh"
#include "vectors.cuh"

// A pair of a ticket, each half beside the launch's number: who sees the number sees the half.
struct Posted {
    unsigned long long max, sum;
};

struct Scratch {
    unsigned launches, done, ticket, unused;
    Posted posted[1]; // rows x tickets of a row
};

__device__ inline unsigned long long beside(unsigned number, float v) {
    return static_cast<unsigned long long>(number) << 32 | __float_as_uint(v);
}

__device__ inline void post(Posted *to, unsigned number, Partial p) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
                 "l"(beside(number, p.max)), "l"(beside(number, p.sum))
                 : "memory");
}

__device__ inline Partial merged(Partial a, Partial b) {
    float max = fmaxf(a.max, b.max), base = base_of(max);
    return {max,
            a.sum * exp2_fast((a.max - base) * LOG2E) + b.sum * exp2_fast((b.max - base) * LOG2E)};
}

// A lane's part of ``count`` tickets' pairs, once they are all posted: EACH of them on their way at
// once, since each takes the time to the L2 and back.
template <int EACH> __device__ Partial collect(const Posted *posted, int count, unsigned number) {
    Partial all = no_partial();
    for (int first = threadIdx.x % 32; first < count; first += 32 * EACH) {
        unsigned long long max[EACH], sum[EACH];
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                max[i] = beside(number, -CUDART_INF_F);
                sum[i] = beside(number, 0.0f);
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
        float top = all.max;
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            top = fmaxf(top, __uint_as_float(unsigned(max[i])));
        float base = base_of(top);
        all.sum *= exp2_fast((all.max - base) * LOG2E);
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            all.sum += __uint_as_float(unsigned(sum[i])) *
                       exp2_fast((__uint_as_float(unsigned(max[i])) - base) * LOG2E);
        all.max = top;
    }
    return all;
}

// A chunk of a row: vectors ``first`` to before ``last``, the first of them ``offset`` vectors into
// its slot, so that all chunks but the first start with a line.
template <class T, bool EDGES> struct Chunk {
    Row<T, EDGES> row;
    int number, first, last, offset;

    __device__ Chunk(const T *x, long long stride, int cols, int2 which, int vectors)
        : row(x + which.x * stride, cols), number(which.y) {
        int start = number * vectors - row.lead();
        first = max(0, start);
        last = min(row.vectors, start + vectors);
        offset = first - start;
    }

    __device__ int size() const { return max(0, last - first); }
    // Whether a vector of the slot is the chunk's, and which of the row it is.
    __device__ bool has(int j) const { return j >= offset && j < offset + size(); }
    __device__ int vector(int j) const { return first + j - offset; }
    // The thread of the row's edges: they go with chunk 0.
    __device__ int edge_thread(int thread) const { return number == 0 ? thread : 1 << 20; }
};

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

template <class T, int CHUNK, int SLOTS, int REDUCERS, int WRITERS, bool EDGES>
__global__ void __launch_bounds__((REDUCERS + WRITERS + 3) * 32, 1)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, int rows,
            int chunks, int vectors, int together, Scratch *scratch) {
    extern __shared__ __align__(128) uint4 ring[]; // SLOTS x CHUNK
    __shared__ Barrier full[SLOTS], reduced[SLOTS], ready[SLOTS], empty[SLOTS];
    __shared__ int2 which[SLOTS]; // row and chunk; row -1 after the last
    __shared__ Partial of_warp[SLOTS][REDUCERS], of_row[SLOTS];
    __shared__ unsigned number;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tickets = (chunks + together - 1) / together; // of a row

    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            init(&full[s], 1);
            init(&reduced[s], REDUCERS);
            init(&ready[s], 1);
            init(&empty[s], WRITERS);
        }
        initialised();
        written();
        number = *(volatile unsigned *)&scratch->launches + 1;
        number += number == 0; // what was never written is 0
    }
    __syncthreads();
    Place<SLOTS> at;
    auto chunk = [&](int2 w) { return Chunk<T, EDGES>(x, x_stride, cols, w, vectors); };

    if (warp < REDUCERS) {
        for (;; at.next()) {
            wait(&full[at.slot], at.parity);
            int2 w = which[at.slot];
            Partial mine = no_partial();
            if (w.x >= 0) {
                auto c = chunk(w);
                const uint4 *slot = ring + at.slot * CHUNK;
                uint4 raw[CHUNK / (REDUCERS * 32)];
#pragma unroll
                for (int i = 0; i < CHUNK / (REDUCERS * 32); ++i) {
                    int j = threadIdx.x + REDUCERS * 32 * i;
                    raw[i] = c.has(j) ? slot[j] : nothing<T>();
                }
                float edge = c.row.load_edge(c.edge_thread(threadIdx.x));
                mine.max = max_over<32>(fmaxf(largest<T>(raw), edge));
                float base = base_of(mine.max), sum = exp2_fast((edge - base) * LOG2E);
#pragma unroll
                for (int i = 0; i < CHUNK / (REDUCERS * 32); ++i) {
                    float v[WIDTH<T>];
                    unpack<T>(raw[i], v);
#pragma unroll
                    for (float e : v)
                        sum += exp2_fast((e - base) * LOG2E);
                }
                mine.sum = sum_over<32>(sum);
            }
            if (lane == 0) {
                of_warp[at.slot][warp] = mine;
                arrive_at(&reduced[at.slot]);
            }
            if (w.x < 0)
                return;
        }
    }
    warp -= REDUCERS;
    if (warp < WRITERS) {
        int thread = warp * 32 + lane;
        for (;; at.next()) {
            wait(&ready[at.slot], at.parity);
            int2 w = which[at.slot];
            if (w.x < 0)
                return;
            auto c = chunk(w);
            Partial row = of_row[at.slot];
            const uint4 *slot = ring + at.slot * CHUNK;
            uint4 raw[CHUNK / (WRITERS * 32)];
#pragma unroll
            for (int i = 0; i < CHUNK / (WRITERS * 32); ++i) {
                int j = thread + WRITERS * 32 * i;
                raw[i] = c.has(j) ? slot[j] : nothing<T>();
            }
            float edge = c.row.load_edge(c.edge_thread(thread));
            __syncwarp();
            if (lane == 0)
                arrive_at(&empty[at.slot]);
            float base = base_of(row.max), scale = 1.0f / row.sum;
            T *to = out + w.x * out_stride;
            bool alike = c.row.alike(to);
#pragma unroll
            for (int i = 0; i < CHUNK / (WRITERS * 32); ++i) {
                int j = thread + WRITERS * 32 * i;
                float v[WIDTH<T>];
                unpack<T>(raw[i], v);
#pragma unroll
                for (float &e : v)
                    e = exp2_fast((e - base) * LOG2E) * scale;
                if (c.has(j))
                    c.row.store(to, c.vector(j), v, alike);
            }
            c.row.store_edge(to, c.edge_thread(thread), exp2_fast((edge - base) * LOG2E) * scale);
        }
    }
    warp -= WRITERS;
    if (warp == 0) { // dealer
        if (lane > 0)
            return;
        for (;;) {
            Place<SLOTS> ahead = at;
            for (int i = 0; i < together; ++i, ahead.next())
                wait(&empty[ahead.slot], ahead.parity ^ 1); // at first they are
            // Not before: a ticket that waits for slots keeps its row from everybody.
            unsigned ticket = atomicAdd(&scratch->ticket, 1);
            if (ticket >= unsigned(rows) * tickets)
                break;
            int row = ticket / tickets, first = (ticket - row * tickets) * together;
            for (int n = first; n < min(first + together, chunks); ++n, at.next()) {
                which[at.slot] = {row, n};
                auto c = chunk({row, n});
                arrive_expecting(&full[at.slot], c.size() * 16);
                if (c.size() > 0)
                    load_bulk(ring + at.slot * CHUNK + c.offset, c.row.body() + c.first,
                              c.size() * 16, &full[at.slot]);
            }
        }
        which[at.slot] = {-1, -1};
        arrive_at(&full[at.slot]);
        if (atomicAdd(&scratch->done, 1) == gridDim.x - 1) { // the last: ready for the next launch
            scratch->ticket = scratch->done = 0;
            scratch->launches = number;
        }
    } else if (warp == 1) { // poster
        Partial so_far = no_partial();
        for (;; at.next()) {
            wait(&reduced[at.slot], at.parity);
            int2 w = which[at.slot];
            if (w.x < 0)
                return;
            Partial p = over_warp(lane < REDUCERS ? of_warp[at.slot][lane] : no_partial());
            so_far = w.y % together == 0 ? p : merged(so_far, p);
            if (lane == 0 && (w.y % together == together - 1 || w.y == chunks - 1))
                post(&scratch->posted[w.x * (long long)tickets + w.y / together], number, so_far);
        }
    } else { // gatherer
        int known = -1;
        Partial row = no_partial();
        for (;; at.next()) {
            wait(&full[at.slot], at.parity);
            int2 w = which[at.slot];
            if (w.x >= 0 && w.x != known) {
                known = w.x;
                const Posted *posted = &scratch->posted[w.x * (long long)tickets];
                row = tickets <= 32 ? collect<1>(posted, tickets, number)
                                    : collect<8>(posted, tickets, number);
                __syncwarp();
                row = over_warp(row);
            }
            __syncwarp(); // every lane has read what the slot holds
            if (lane == 0) {
                of_row[at.slot] = row;
                arrive_at(&ready[at.slot]);
            }
            if (w.x < 0)
                return;
        }
    }
}
