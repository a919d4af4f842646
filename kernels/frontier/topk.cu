// topk: the k largest probabilities of a row.  ``candidates`` finds those of each of ``parts``
// parts of a row, and (max, sum) beside them; ``topk_softmax`` the row's.
//   moves    X once; k keys of 8 bytes a part, written and read; k values and k indices a row
//   launch   candidates: grid = rows * parts, block = THREADS; topk_softmax: grid = rows, the same
//            block
//   holds    any row of fewer than 2^31 columns, k <= 128; found: rows * parts * k keys; sums:
//            rows * parts
//   teaches  a choice needs what is above a bar that rises, not a sorted row
//   source   own; the sum beside the choice: Milakov and Gimelshein 2018, arXiv:1805.02867

#include "candidates.cuh"

template <class T> constexpr int EACH = ROUND / THREADS / WIDTH<T>; // vectors of a thread's round

__device__ inline float exponential(float v, float base) { return exp2_fast((v - base) * LOG2E); }

// Adds to a thread's sum, which is relative to its maximum, N vectors.
template <class T, int N> __device__ void add(Partial &mine, const uint4 (&raw)[N]) {
    float max = larger(mine.max, largest<T>(raw)), base = base_of(max);
    float sum = mine.sum * exponential(mine.max, base);
#pragma unroll
    for (const uint4 &each : raw) {
        float v[WIDTH<T>];
        unpack<T>(each, v);
#pragma unroll
        for (float e : v)
            sum += exponential(e, base);
    }
    mine = {max, sum};
}

// The pair of all threads, in the first warp.
__device__ inline Partial over_block(Partial mine) {
    __shared__ Partial of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    mine = over_warp(Softmax(), mine);
    if (lane == 0)
        of_warp[warp] = mine;
    __syncthreads();
    return over_warp(Softmax(), lane < THREADS / 32 ? of_warp[lane] : no_partial());
}

template <class T, bool SUMS>
__global__ void __launch_bounds__(THREADS, 4)
    candidates(const T *x, Key *found, Partial *sums, long long x_stride, int cols, int parts,
               int k, int column_bits) {
    await_last();
    __shared__ Candidates shared;
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Row<T, 1> in(x + row * x_stride, cols);
    Portion part(in, rank, parts);
    Candidates::Bar bar;
    Partial mine = no_partial();
    shared.begin();
    if (int j = in.edge(threadIdx.x); rank == 0 && j >= 0) {
        float v = in.row[j];
        mine = {v, exponential(v, base_of(v))};
        shared.offer(bar, key_of<T>(v, j));
    }
    for (int first = part.start, round = 1; first < part.last;
         first += THREADS * EACH<T>, ++round) {
        uint4 raw[EACH<T>];
#pragma unroll
        for (int i = 0; i < EACH<T>; ++i) {
            int at = first + static_cast<int>(threadIdx.x) + THREADS * i;
            raw[i] = at < part.last ? in.load(at) : nothing<T>();
        }
        if constexpr (SUMS)
            add<T>(mine, raw);
        else
            mine.max = larger(mine.max, largest<T>(raw));
        if ((round & (round - 1)) == 0) // as often as what was looked at has doubled
            shared.raise<T>(bar, ordered<T>(mine.max), k);
#pragma unroll
        for (int i = 0; i < EACH<T>; ++i) {
            int at = first + static_cast<int>(threadIdx.x) + THREADS * i;
            float v[WIDTH<T>];
            unpack<T>(raw[i], v);
            if (at >= part.first && at < part.last)
#pragma unroll
                for (int e = 0; e < WIDTH<T>; ++e)
                    if (!(v[e] < bar.below)) // NaN is not
                        shared.offer(bar, key_of<T>(v[e], in.head + at * WIDTH<T> + e));
        }
        shared.next_round<T>(bar, k, column_bits);
    }
    let_next_come();
    __syncthreads();
    shared.cut<T>(bar, k, column_bits);
    Key *to = found + static_cast<long long>(blockIdx.x) * k;
    if (threadIdx.x < k)
        to[threadIdx.x] = threadIdx.x < shared.count ? shared.list[threadIdx.x] : 0;
    if constexpr (SUMS) {
        mine = over_block(mine);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = mine;
    }
}

// ALL: divided by the sum over the row, not over the k.
template <class T, bool ALL>
__global__ void __launch_bounds__(THREADS)
    topk_softmax(const Key *found, const Partial *sums, T *values, long long *indices, int parts,
                 int k, int column_bits) {
    await_turn();
    __shared__ Candidates shared;
    __shared__ float p[MOST_TOP];
    long long row = blockIdx.x;
    shared.largest_of<T>(found + row * parts * k, parts * k, k, column_bits);
    auto value = [&](int i) { return value_of<T>(static_cast<unsigned>(shared.best[i] >> 32)); };
    Partial all = {value(0), 0.0f};
    if constexpr (ALL) {
        Partial mine = no_partial();
        for (int i = threadIdx.x; i < parts; i += THREADS) {
            Partial one = sums[row * parts + i];
            float max = larger(mine.max, one.max), base = base_of(max);
            mine = {max,
                    mine.sum * exponential(mine.max, base) + one.sum * exponential(one.max, base)};
        }
        __shared__ Partial of_row;
        mine = over_block(mine);
        if (threadIdx.x == 0)
            of_row = mine;
        __syncthreads();
        all = of_row;
    } else {
        for (int i = 0; i < k; ++i)
            all.sum += exponential(value(i), base_of(all.max));
    }
    int i = threadIdx.x;
    if (i < k)
        p[i] = exponential(value(i), base_of(all.max)) / all.sum;
    __syncthreads();
    if (i >= k)
        return;
    // No approximation promises to keep the order of neighbours.
    float least = p[i];
    for (int j = 0; j < i; ++j)
        least = fminf(least, p[j]);
    values[row * k + i] = T(least);
    indices[row * k + i] = column_of(shared.best[i]);
}
