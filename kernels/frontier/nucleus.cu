// nucleus: a token of each row among those that top-p keeps, without looking for the last of them.
// A token is kept where those before it, in the order of keys, have less than the fraction p of the
// row's weight; and the first one in the race (race.cuh) of all tokens that is kept is the sample.
// ``draw`` runs the race, of which each part notes the first four; ``judge`` adds up, in one look,
// the row's weight and what is before each of the row's first ones, and takes the first one that is
// kept.  Each is so with a probability of p at least, whoever was ahead of it: four leave one row
// in ten thousand of p = 0.9, and more where fewer are known (choice_plans.nucleus_left).  Then
// nobody behind them is kept either, and those before all of them run again.  Where much is to be
// left, a judge of the first two comes before, and a second turn, whose blocks are dealt out among
// the rows that are left.  What is still left at the LAST judge, the row's last block settles
// alone.
//   moves    X once, and once more, from the L2 where it holds the rows
//   launch   grid = rows * parts, block = THREADS; draw and judge, once or twice by turns; a first
//            judge with parts of its own, a second turn's grids as the first draw's
//   holds    any row of fewer than 2^31 columns
//   teaches  rejection that gives the same token as the set itself would: noise belongs to tokens
//   source   own; rejection in place of a sort as in FlashInfer (Ye et al. 2025, arXiv:2501.01005)

#include "each.cuh"
#include "race.cuh"
#include "summing.cuh"

constexpr int FIRST = 4;                                      // of a race, that are noted
template <bool LAST> constexpr int JUDGED = LAST ? FIRST : 2; // of these, that a judge looks at

// In global memory, of a row.
struct Standing {
    Sum total;                  // weight of the row
    Sum before[FIRST];          // of those before each of the first
    unsigned long long arrived; // parts
    Key bar;                    // nobody is kept who is not before it, if it is one
};

// Where a block works: part ``rank`` of ``parts`` of ``row``, which is number ``slot`` of those
// that have a turn.
struct Place {
    int row, slot, rank, parts;

    __device__ bool empty() const { return rank >= parts; }
};

struct Memory {
    Standing *standings; // rows
    Key *first;          // rows x parts x FIRST
    unsigned *maxima;    // rows x parts
    int *left;           // how many rows are left, and which
    int parts;           // of a row at the first draw

    __device__ Memory(Sum *memory, int rows, int parts)
        : standings(reinterpret_cast<Standing *>(memory)),
          first(reinterpret_cast<Key *>(standings + rows)),
          maxima(reinterpret_cast<unsigned *>(first + 1ll * rows * parts * FIRST)),
          left(reinterpret_cast<int *>(maxima + 1ll * rows * parts)), parts(parts) {}

    // Of a second turn, in which no row has more parts than ``most``.
    __device__ Place among_left(int most) const {
        int n = left[0], block = blockIdx.x, blocks = gridDim.x;
        if (n == 0)
            return {}; // no parts
        return {left[1 + block % n], block % n, block / n, min(most, blocks / n)};
    }

    // The first N of the ``parts`` parts of number ``slot``, of all lanes.
    template <int N> __device__ Leaders<N> leaders(int slot, int parts) const {
        const Key *of_row = first + 1ll * slot * parts * FIRST;
        Leaders<N> mine;
        // All of a part in one lane: nobody behind an equal is known.
        int part = threadIdx.x % 32;
        if (part < parts)
#pragma unroll
            for (int i = 0; i < N; ++i)
                mine.key[i] = of_row[part * FIRST + i];
        while ((part += 32) < parts)
#pragma unroll
            for (int i = 0; i < N; ++i)
                mine.take(of_row[part * FIRST + i]);
        return leaders_of_warp(mine);
    }
    template <class T> __device__ float most(int row) const {
        unsigned most = 0;
        for (int i = threadIdx.x % 32; i < parts; i += 32)
            most = max(most, maxima[1ll * row * parts + i]);
        return value_of<T>(max_over_warp(most));
    }
};

// A token in the order of keys, in a row without NaN; of a key of 0 it is none.
template <class T> struct Bar {
    float value, below;
    int column;

    __device__ Bar() {}
    __device__ explicit Bar(Key key)
        : value(value_of<T>(static_cast<unsigned>(key >> 32))),
          below(nextafterf(value, -CUDART_INF_F)), column(column_of(key)) {}

    __device__ bool any() const { return column >= 0; }
    __device__ Key key() const { return any() ? key_of<T>(value, column) : 0; }
    // Whether another one is before it.
    __device__ bool behind(float v, int at) const {
        return (v > value) | ((v == value) & (at < column)); // without a branch
    }
    // Of a vector of N from column ``at`` on that it is not in the midst of: who is above this.
    __device__ float above(int at) const { return at < column ? below : value; }
    template <int N> __device__ bool amid(int at) const { return at < column && column < at + N; }
};

// The key of a token of the row, by its value and not by what it has in the race; 0 of none.
template <class T> __device__ Key by_value(const Row<T, 1> &in, Key runner) {
    int column = column_of(runner);
    return runner ? key_of<T>(static_cast<float>(in.row[column]), column) : 0;
}

// Of all threads, each of N sums.
template <int N> __device__ void sums_of_block(Sum (&sum)[N]) {
    __shared__ Sum of_warp[THREADS / 32][N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            unsigned low = __shfl_xor_sync(ALL_LANES, static_cast<unsigned>(sum[i]), step);
            unsigned high = __shfl_xor_sync(ALL_LANES, static_cast<unsigned>(sum[i] >> 32), step);
            sum[i] += static_cast<Sum>(high) << 32 | low;
        }
        if (threadIdx.x % 32 == 0)
            of_warp[threadIdx.x / 32][i] = sum[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) {
        sum[i] = 0;
        for (int warp = 0; warp < THREADS / 32; ++warp)
            sum[i] += of_warp[warp][i];
    }
    __syncthreads(); // before anybody comes here again
}

__device__ inline Place in_order(int parts) {
    int block = blockIdx.x;
    return {block / parts, block / parts, block % parts, parts};
}

// AGAIN: of rows that are left, those before the bar.
template <class T, bool AGAIN>
__global__ void __launch_bounds__(THREADS)
    draw(const T *x, Sum *memory, unsigned long long seed, unsigned long long offset,
         float inverse_temperature, long long x_stride, int cols, int rows, int parts, int most) {
    await_last();
    Memory at(memory, rows, parts);
    Place place = AGAIN ? at.among_left(most) : in_order(parts);
    if (AGAIN && place.empty())
        return;
    int row = place.row;
    Standing &standing = at.standings[row];
    Bar<T> bar(AGAIN ? standing.bar : 0);
    if (place.rank == 0 && threadIdx.x == 0) {
        standing.total = AGAIN ? standing.total : 0;
        for (Sum &before : standing.before)
            before = 0;
        standing.arrived = 0;
        if (!AGAIN && row == 0)
            at.left[0] = 0;
    }
    RaceFor<FirstTwo> race({seed, offset, static_cast<unsigned>(row)}, inverse_temperature);
    float top = -CUDART_INF_F;
    each<T>(
        Row<T, 1>(x + row * x_stride, cols), place.rank, place.parts,
        [&](float (&v)[WIDTH<T>], int column, bool) {
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e) {
                if constexpr (!AGAIN)
                    top = larger(top, v[e]);
                bool runs = !AGAIN || bar.behind(v[e], column + e);
                v[e] = runs ? race.scaled(v[e]) : -CUDART_INF_F;
            }
            race.some(v, column);
        },
        [&](float v, int column) {
            top = larger(top, v);
            if (!AGAIN || bar.behind(v, column))
                race.one(v, column);
        });
    let_next_come();
    if constexpr (!AGAIN) {
        unsigned highest = largest_of_block<T>(top);
        if (threadIdx.x == 0)
            at.maxima[blockIdx.x] = highest;
    }
    long long part = AGAIN ? 1ll * place.slot * place.parts + place.rank : blockIdx.x;
    note_leaders<FIRST>(race.kept, at.first + FIRST * part);
}

// What a look of one block at a whole row found: the weight of those before the bar, and who of
// them is first in their race.
struct Seen {
    Sum before;
    Key first;
};

template <class T>
__device__ Seen look(const Row<T, 1> &in, Bar<T> bar, const Weights &weights, Race race) {
    Sum before[1] = {};
    each<T, 2>(
        in, 0, 1,
        [&](float (&v)[WIDTH<T>], int column, bool mine) {
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e) {
                bool runs = mine && bar.behind(v[e], column + e);
                before[0] += runs ? weights.of_finite(v[e]) : 0;
                v[e] = runs ? race.scaled(v[e]) : -CUDART_INF_F;
            }
            race.some(v, column);
        },
        [&](float v, int column) {
            if (bar.behind(v, column)) {
                before[0] += weights.of_finite(v);
                race.one(v, column);
            }
        });
    sums_of_block(before);
    Key first = best_of_block(race.kept);
    __syncthreads(); // before anybody comes here again
    return {before[0], first};
}

// LAST: what is not settled by the row's first ones is so by the row's last block.
template <class T, bool LAST>
__global__ void __launch_bounds__(THREADS, 3)
    judge(const T *x, Sum *memory, long long *out, unsigned long long seed,
          unsigned long long offset, double p, float inverse_temperature, long long x_stride,
          int cols, int rows, int drawn, int parts, int most, int fixed, int again) {
    await_last();
    Memory at(memory, rows, drawn);
    Place place = again ? at.among_left(most) : in_order(parts);
    if (place.empty())
        return;
    int row = place.row;
    Standing &standing = at.standings[row];
    auto settle = [&](long long token) {
        if (threadIdx.x == 0)
            out[row] = token;
    };
    constexpr int N = JUDGED<LAST>;
    Leaders<N> leaders = at.leaders<N>(place.slot, again ? place.parts : drawn);
    Row<T, 1> in(x + row * x_stride, cols);
    Weights weights(at.most<T>(row), inverse_temperature, fixed);
    // Of +inf or NaN the first one wins and is kept; of -inf alone nobody runs.
    if (!weights.finite()) {
        if (place.rank == 0)
            settle(token_of(leaders.key[0]));
        return;
    }
    Bar<T> bars[N];
#pragma unroll
    for (int i = 0; i < N; ++i)
        bars[i] = Bar<T>(by_value(in, leaders.key[i]));
    // Of all; of those before each of the first.
    Summing summing(fixed);
    double sums[1 + N];
#pragma unroll
    for (double &each : sums)
        each = summing.zero;
    auto weigh = [&](float v, int column) {
        double power = power_of(weights.exponent_of(v));
        summing.add(sums[0], power);
#pragma unroll
        for (int i = 0; i < N; ++i)
            if (bars[i].behind(v, column))
                summing.add(sums[1 + i], power);
    };
    each<T>(
        in, place.rank, place.parts,
        [&](float (&v)[WIDTH<T>], int column, bool mine) {
            if (!mine)
                return;
            bool amid = false;
            float above[N];
#pragma unroll
            for (int i = 0; i < N; ++i) {
                amid |= bars[i].template amid<WIDTH<T>>(column);
                above[i] = bars[i].above(column);
            }
            if (amid) {
#pragma unroll
                for (int e = 0; e < WIDTH<T>; ++e)
                    weigh(v[e], column + e);
                return;
            }
#pragma unroll
            for (float e : v) {
                double power = power_of(weights.exponent_of(e));
                summing.add(sums[0], power);
#pragma unroll
                for (int i = 0; i < N; ++i)
                    summing.add_above(sums[1 + i], power, e, above[i]);
            }
        },
        weigh);
    let_next_come();
    Sum sum[1 + N];
#pragma unroll
    for (int i = 0; i <= N; ++i)
        sum[i] = summing.whole(sums[i]);
    sums_of_block(sum);

    __shared__ bool last;
    if (threadIdx.x == 0) {
        if (!again)
            atomicAdd(&standing.total, sum[0]);
#pragma unroll
        for (int i = 0; i < N; ++i)
            atomicAdd(&standing.before[i], sum[1 + i]);
        __threadfence();
        last = atomicAdd(&standing.arrived, 1ull) + 1 == place.parts;
        __threadfence();
    }
    __syncthreads();
    if (!last)
        return;
    const volatile Standing &told = standing;
    Sum wanted = share_of(told.total, p);
    Sum before[N];
#pragma unroll
    for (int i = 0; i < N; ++i)
        before[i] = told.before[i];
    int token = -1;
    Key highest = 0; // of their values' keys
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
        token = bars[i].any() && before[i] < wanted ? bars[i].column : token;
        highest = max(highest, bars[i].key());
    }
    if (token >= 0)
        return settle(token);
    if constexpr (!LAST) {
        if (threadIdx.x == 0) {
            standing.bar = highest;
            at.left[1 + atomicAdd(at.left, 1)] = row;
        }
        return;
    }
    for (Key bar = highest;;) {
        Race race({seed, offset, static_cast<unsigned>(row)}, inverse_temperature);
        Seen seen = look(in, Bar<T>(bar), weights, race);
        if (seen.before < wanted)
            return settle(token_of(bar));
        bar = by_value(in, seen.first);
    }
}
