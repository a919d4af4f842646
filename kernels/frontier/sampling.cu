// sampling: a token of each row, as its probability has it.  ``sample`` runs a race (race.cuh) in
// each of ``parts`` parts of a row, and ``chosen`` among these.  Of tokens that top-k keeps: up to
// 128 of them come from ``candidates`` (topk.cu), and ``sample_of_top`` ends it; else ``highest``
// and passes of ``narrow`` look for the last one kept, and ``sample`` for the winner.  Top-p alone
// is nucleus.cu's.
//   moves    X once; narrow: X once a pass more, from the L2 where it holds the rows of a launch
//   launch   grid = rows * parts, block = THREADS; sample_of_top: grid = rows; chosen: a warp a row
//   holds    any row of fewer than 2^31 columns
//   teaches  a sample is a maximum: one read, no sum, no sort
//   source   own

#include "candidates.cuh"
#include "each.cuh"
#include "narrow.cuh"
#include "race.cuh"

// KEPT: of those that the passes kept, the last of which was ``told``.
template <class T, bool KEPT>
__global__ void __launch_bounds__(THREADS)
    sample(const T *x, Key *best, long long *out, Sum *memory, unsigned long long seed,
           unsigned long long offset, double p, float inverse_temperature, long long x_stride,
           int cols, int rows, int parts, int first_row, int fixed, int column_bits, int passes,
           int told) {
    await_last();
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Key floor = 0;
    if constexpr (KEPT) {
        Memory at(memory, rows, parts, passes);
        Weights weights = {at.max_of<T>(row), inverse_temperature, fixed};
        Search s = known_after<T>(at, row, passes - 1, Pass(told), weights, p, column_bits);
        floor = max(s.floor, s.prefix);
    }
    Race race({seed, offset, static_cast<unsigned>(first_row + row)}, inverse_temperature);
    each<T>(
        Row<T, 1>(x + row * x_stride, cols), rank, parts,
        [&](float (&v)[WIDTH<T>], int column, bool) {
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e) {
                bool out = KEPT && key_of<T>(v[e], column + e) < floor;
                v[e] = out ? -CUDART_INF_F : race.scaled(v[e]);
            }
            race.some(v, column);
        },
        [&](float v, int column) {
            if (!KEPT || key_of<T>(v, column) >= floor)
                race.one(v, column);
        });
    let_next_come();
    Key found = best_of_block(race.kept);
    if (threadIdx.x > 0)
        return;
    if (parts == 1)
        out[row] = token_of(found);
    else
        best[blockIdx.x] = found;
}

__global__ void __launch_bounds__(THREADS)
    chosen(const Key *best, long long *out, int rows, int parts) {
    await_turn();
    int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    Key mine = 0;
    for (int i = lane; i < parts; i += 32)
        mine = max(mine, best[static_cast<long long>(row) * parts + i]);
    mine = max_over_warp(mine);
    if (lane == 0)
        out[row] = token_of(mine);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    sample_of_top(const Key *found, long long *out, unsigned long long seed,
                  unsigned long long offset, double p, float inverse_temperature, int parts, int k,
                  int fixed, int column_bits) {
    await_turn();
    __shared__ Candidates shared;
    __shared__ Sum weight[MOST_TOP];
    long long row = blockIdx.x;
    shared.largest_of<T>(found + row * parts * k, parts * k, k, column_bits);
    int i = threadIdx.x;
    auto value = [&](int i) { return value_of<T>(static_cast<unsigned>(shared.best[i] >> 32)); };
    Weights weights = {value(0), inverse_temperature, fixed};
    if (i < k)
        weight[i] = weights.of(value(i));
    __syncthreads();
    Race race({seed, offset, static_cast<unsigned>(row)}, inverse_temperature);
    if (i < k) {
        Sum before = 0, total = 0;
        for (int j = 0; j < k; ++j) {
            before += j < i ? weight[j] : 0;
            total += weight[j];
        }
        if (p == 1.0 || before < share_of(total, p))
            race.one(value(i), column_of(shared.best[i]));
    }
    Key best = best_of_block(race.kept);
    if (i == 0)
        out[row] = token_of(best);
}

// The largest value of each part; the first histogram is made ready.
template <class T>
__global__ void __launch_bounds__(THREADS) highest(const T *x, Sum *memory, long long x_stride,
                                                   int cols, int rows, int parts, int passes) {
    await_turn();
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Memory at(memory, rows, parts, passes);
    if (rank == 0)
        at.make_ready(0, row);
    float most = -CUDART_INF_F;
    each<T>(
        Row<T, 1>(x + row * x_stride, cols), rank, parts,
        [&](float (&v)[WIDTH<T>], int, bool) {
#pragma unroll
            for (float e : v)
                most = larger(most, e);
        },
        [&](float v, int) { most = larger(most, v); });
    unsigned mine = largest_of_block<T>(most);
    if (threadIdx.x == 0)
        at.maxima[blockIdx.x] = mine;
}

// Pass ``number``, ``told``, after the one that was ``told_before``.
template <class T>
__global__ void __launch_bounds__(THREADS)
    narrow(const T *x, Sum *memory, double p, float inverse_temperature, long long x_stride,
           int cols, int rows, int parts, int k, int fixed, int column_bits, int passes, int number,
           int told_before, int told) {
    await_turn();
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Memory at(memory, rows, parts, passes);
    Weights weights = {at.max_of<T>(row), inverse_temperature, fixed};
    Pass pass(told);
    Search s = {};
    if (number > 0)
        s = known_after<T>(at, row, number - 1, Pass(told_before), weights, p, column_bits);
    s = begun(s, pass, k);
    if (rank == 0) {
        if (threadIdx.x == 0)
            *at.search(number, row) = s;
        at.make_ready(number + 1, row);
    }
    if (s.done)
        return;

    // Sums of 64 bits in two words, each of which the hardware adds to at once.
    __shared__ unsigned low[BINS], high[BINS];
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        low[i] = high[i] = 0;
    __syncthreads();
    auto count = [&](float v, int column) {
        Key key = key_of<T>(v, column);
        if (key < s.floor || !pass.alike(key, s.prefix))
            return;
        Sum weight = pass.weighted ? weights.of(v) : 1;
        if (weight == 0)
            return;
        int bin = pass.digit(key);
        auto part = static_cast<unsigned>(weight);
        auto rest = static_cast<unsigned>(weight >> 32);
        rest += atomicAdd(&low[bin], part) > ~part; // what does not fit any more
        if (rest)
            atomicAdd(&high[bin], rest);
    };
    each<T>(
        Row<T, 1>(x + row * x_stride, cols), rank, parts,
        [&](float (&v)[WIDTH<T>], int column, bool mine) {
            if (mine)
#pragma unroll
                for (int e = 0; e < WIDTH<T>; ++e)
                    count(v[e], column + e);
        },
        count);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += THREADS)
        if (Sum sum = static_cast<Sum>(high[i]) << 32 | low[i])
            atomicAdd(&at.of_pass(number, row)[i], sum);
}
