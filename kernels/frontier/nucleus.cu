// nucleus: a token of each row among those that top-p keeps, without looking for the last of them.
// Who wins the race (race.cuh) of all tokens wins that of those kept too, if it is kept: and it is,
// where the tokens before it, in the order of keys, have less than the fraction p of the row's
// weight.  ``draw`` runs the race of all.  ``judge`` adds up that weight, and has those before the
// winner race beside, of whom the next winner comes if this one is out: nobody behind it is kept.
// A second ``judge`` takes rows that are not settled; what is left after it (of p = 0.9 one row in
// a hundred) the row's last block settles alone.
//   moves    X once; once a look more, from the L2 where it holds the rows
//   launch   grid = rows * parts, block = THREADS
//   holds    any row of fewer than 2^31 columns
//   teaches  rejection that gives the same token as the set itself would: noise belongs to tokens
//   source   own; rejection in place of a sort as in FlashInfer (Ye et al. 2025, arXiv:2501.01005)

#include "each.cuh"
#include "race.cuh"

constexpr int LOOKS = 2; // of all parts of a row at once

// In global memory, of a row.
struct Standing {
    Sum total;                         // weight of the row
    Sum before[LOOKS];                 // of those before the winner so far
    unsigned long long arrived[LOOKS]; // parts
    Key winner;                        // column of the second look's, 0 for a row that is settled
};

// What a look at a part of a row found: weights of all (if asked for) and of those before the
// winner so far, and the winner among these.
struct Seen {
    Sum total, before;
    Key winner;
};

struct Memory {
    Standing *standings; // rows
    Key *winners;        // (1 + LOOKS) x rows x parts
    unsigned *maxima;    // rows x parts
    long long blocks;
    int parts;

    __device__ Memory(Sum *memory, int rows, int parts)
        : standings(reinterpret_cast<Standing *>(memory)),
          winners(reinterpret_cast<Key *>(standings + rows)),
          maxima(reinterpret_cast<unsigned *>(winners + (1 + LOOKS) * 1ll * rows * parts)),
          blocks(1ll * rows * parts), parts(parts) {}

    // The best of a row's parts before look ``number``, of all lanes.
    __device__ Key winner(int number, int row) const {
        const volatile Key *of_row = winners + number * blocks + 1ll * row * parts;
        Key best = 0;
        for (int i = threadIdx.x % 32; i < parts; i += 32)
            best = max(best, static_cast<Key>(of_row[i]));
        return max_over_warp(best);
    }
    template <class T> __device__ float most(int row) const {
        unsigned most = 0;
        for (int i = threadIdx.x % 32; i < parts; i += 32)
            most = max(most, maxima[1ll * row * parts + i]);
        return value_of<T>(max_over_warp(most));
    }

    // Whether this block is the last one of its row to say what it saw at look ``number``; of all
    // threads.
    __device__ bool last_with(const Seen &seen, int number, int row) const {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            Standing &standing = standings[row];
            winners[(1 + number) * blocks + blockIdx.x] = seen.winner;
            atomicAdd(&standing.total, seen.total);
            atomicAdd(&standing.before[number], seen.before);
            __threadfence();
            last = atomicAdd(&standing.arrived[number], 1ull) + 1 == parts;
            __threadfence();
        }
        __syncthreads();
        return last;
    }
    // What all of them saw: the last one's.
    __device__ Seen together(int number, int row) const {
        const volatile Standing &standing = standings[row];
        return {standing.total, standing.before[number], winner(1 + number, row)};
    }
};

__device__ inline Sum sum_of_block(Sum v) {
    __shared__ Sum of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        Sum below = from_below(v, step);
        v += lane < step ? 0 : below;
    }
    if (lane == 31)
        of_warp[warp] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < THREADS / 32; ++i)
        v += of_warp[i];
    __syncthreads(); // before anybody comes here again
    return v;
}

// Of all threads.
template <class T>
__device__ Seen look(const Row<T, 1> &in, int rank, int parts, Key bar, bool all,
                     const Weights &weights, Race race) {
    Sum total = 0, before = 0;
    auto weigh = [&](float v, bool ahead) {
        if (!all && !ahead)
            return;
        Sum weight = weights.of(v);
        total += all ? weight : 0;
        before += ahead ? weight : 0;
    };
    each<T, 2>(
        in, rank, parts,
        [&](float (&v)[WIDTH<T>], int column, bool mine) {
#pragma unroll
            for (int e = 0; e < WIDTH<T>; ++e) {
                bool ahead = mine && key_of<T>(v[e], column + e) > bar;
                if (mine)
                    weigh(v[e], ahead);
                v[e] = ahead ? race.scaled(v[e]) : -CUDART_INF_F;
            }
            race.some(v, column);
        },
        [&](float v, int column) {
            bool ahead = key_of<T>(v, column) > bar;
            weigh(v, ahead);
            if (ahead)
                race.one(v, column);
        });
    before = sum_of_block(before);
    total = all ? sum_of_block(total) : 0;
    Key winner = race.of_block();
    __syncthreads(); // before anybody comes here again
    return {total, before, winner};
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    draw(const T *x, Sum *memory, unsigned long long seed, unsigned long long offset,
         float inverse_temperature, long long x_stride, int cols, int rows, int parts) {
    await_turn();
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Memory at(memory, rows, parts);
    if (rank == 0 && threadIdx.x == 0)
        at.standings[row] = {};
    Race race({seed, offset, static_cast<unsigned>(row)}, inverse_temperature);
    float most = -CUDART_INF_F;
    each<T>(
        Row<T, 1>(x + row * x_stride, cols), rank, parts,
        [&](float (&v)[WIDTH<T>], int column, bool) {
#pragma unroll
            for (float &e : v) {
                most = larger(most, e);
                e = race.scaled(e);
            }
            race.some(v, column);
        },
        [&](float v, int column) {
            most = larger(most, v);
            race.one(v, column);
        });
    unsigned highest = largest_of_block<T>(most);
    Key winner = race.of_block();
    if (threadIdx.x == 0) {
        at.maxima[blockIdx.x] = highest;
        at.winners[blockIdx.x] = winner;
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS, 2)
    judge(const T *x, Sum *memory, long long *out, unsigned long long seed,
          unsigned long long offset, double p, float inverse_temperature, long long x_stride,
          int cols, int rows, int parts, int fixed, int number) {
    await_turn();
    int row = blockIdx.x / parts, rank = blockIdx.x % parts;
    Memory at(memory, rows, parts);
    Key winner = number == 0 ? at.winner(0, row) : at.standings[row].winner;
    if (number > 0 && winner == 0)
        return;
    Row<T, 1> in(x + row * x_stride, cols);
    Weights weights = {at.most<T>(row), inverse_temperature, fixed};
    Race race({seed, offset, static_cast<unsigned>(row)}, inverse_temperature);
    Sum wanted = 0;
    // At the row's last block alone there is nobody to wait for.
    for (bool alone = false;; alone = true) {
        Seen seen = {};
        if (winner) {
            int column = column_of(winner);
            Key bar = key_of<T>(static_cast<float>(in.row[column]), column);
            seen = look<T>(in, alone ? 0 : rank, alone ? 1 : parts, bar, number == 0 && !alone,
                           weights, race);
        }
        if (!alone) {
            if (!at.last_with(seen, number, row))
                return;
            seen = at.together(number, row);
            wanted = share_of(seen.total, p);
        }
        if (!winner || seen.before < wanted)
            break;
        winner = seen.winner;
        if (!alone && number + 1 < LOOKS) {
            if (threadIdx.x == 0)
                at.standings[row].winner = winner;
            return;
        }
    }
    if (threadIdx.x == 0) {
        out[row] = token_of(winner);
        at.standings[row].winner = 0;
    }
}
