// race: the token whose logit and noise are largest together, which is a sample of the softmax; of
// equals the first.  Noise is computed in full only for who might win: first a vector's largest
// logit, then a bound from the word of each are compared with the best that any of the block's
// warps has told.
//   source   own; the largest logit beside Gumbel noise: see random.cuh
#pragma once
#include "random.cuh"

// Who is ahead of all that a lane saw.
struct First {
    Key best = 0; // score and column

    __device__ void take(Key key) { best = max(best, key); }
    // Of all lanes: the score of which a warp's next one may not be below; 0 for no limit yet.
    __device__ unsigned to_beat() const { return max_over_warp(static_cast<unsigned>(best >> 32)); }
};

// The same of the first two: nobody below the second of any warp matters.
struct FirstTwo {
    Key best = 0, second = 0;

    __device__ void take(Key key) {
        second = max(second, min(best, key));
        best = max(best, key);
    }
    __device__ unsigned to_beat() const {
        // Of the lanes' best, so that no lane's second is asked for; it may be lower than need be.
        auto score = static_cast<unsigned>(best >> 32);
        return max_over_warp(score == max_over_warp(score) ? 0u : score);
    }
};

template <class Kept> struct RaceFor {
    Words words;
    float inverse_temperature;
    Kept kept{};
    float limit = -3.40282347e38f; // of a warp: who is below does not count; nor does -inf

    // Of all threads of a block.
    __device__ RaceFor(Words words, float inverse_temperature)
        : words(words), inverse_temperature(inverse_temperature) {
        if (threadIdx.x == 0)
            to_beat() = 0;
        __syncthreads();
    }

    // The highest score of which a warp said that its next one may not be below.
    __device__ static unsigned &to_beat() {
        __shared__ unsigned score;
        return score;
    }

    __device__ float scaled(float v) const { return __fmul_rn(v, inverse_temperature); }

    __device__ void enter(float logit, int column, unsigned word) {
        float score = __fadd_rn(logit, gumbel(word));
        if (score != -CUDART_INF_F)
            kept.take(key_of<float>(score, column));
    }

    // One element of value v a thread; a column of -1 where it has none.
    __device__ void one(float v, int column) {
        if (column >= 0)
            enter(scaled(v), column, words.of(column));
    }

    // Of all lanes of a warp: N logits from ``column`` on; those that do not take part are -inf.
    template <int N> __device__ void some(float (&logit)[N], int column) {
        float top = logit[0];
#pragma unroll
        for (int i = 1; i < N; ++i)
            top = larger(top, logit[i]);
        if (!__ballot_sync(ALL_LANES, !(top + ABOVE_ALL < limit)))
            return;
        unsigned word[N];
        words.of(column, word);
        bool any = false;
#pragma unroll
        for (int i = 0; i < N; ++i)
            any |= !(logit[i] + above_gumbel(word[i]) < limit);
        if (!__ballot_sync(ALL_LANES, any))
            return;
        if (any)
#pragma unroll 1
            for (int i = 0; i < N; ++i) {
                float v = logit[0];
                unsigned w = word[0];
            // No register has a number that is not known.
#pragma unroll
                for (int j = 1; j < N; ++j) {
                    v = i == j ? logit[j] : v;
                    w = i == j ? word[j] : w;
                }
                if (!(v + above_gumbel(w) < limit))
                    enter(v, column + i, w);
            }
        unsigned score = kept.to_beat();
        if (threadIdx.x % 32 == 0)
            score = max(score, atomicMax(&to_beat(), score));
        if ((score = __shfl_sync(ALL_LANES, score, 0)))
            limit = score == ~0u ? CUDART_INF_F : value_of<float>(score);
    }
};

using Race = RaceFor<First>;

// The best of all threads of the block.
__device__ inline Key best_of_block(const First &mine) {
    __shared__ Key of_warp[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Key best = max_over_warp(mine.best);
    if (lane == 0)
        of_warp[warp] = best;
    __syncthreads();
    return max_over_warp(lane < THREADS / 32 ? of_warp[lane] : 0);
}

// The first two of a warp's lanes, of all of them. Keys have no equals.
__device__ inline FirstTwo first_two_of_warp(const FirstTwo &mine) {
    Key best = max_over_warp(mine.best);
    return {best, max_over_warp(mine.best == best ? mine.second : mine.best)};
}

// The first N of what was taken, in order; 0 where there are no more.
template <int N> struct Leaders {
    Key key[N] = {};

    __device__ void take(Key next) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            Key worse = min(key[i], next);
            key[i] = max(key[i], next);
            next = worse;
        }
    }
};

// Of all lanes of a warp.
template <int N> __device__ Leaders<N> leaders_of_warp(Leaders<N> mine) {
    Leaders<N> all;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        all.key[n] = max_over_warp(mine.key[0]);
        if (mine.key[0] == all.key[n])
#pragma unroll
            for (int i = 0; i < N; ++i)
                mine.key[i] = i + 1 < N ? mine.key[i + 1] : 0;
    }
    return all;
}

// To ``first``: N of all threads' race, in order, as far as is known.  A warp knows its first two;
// nobody behind the second is known, so that from its turn on it stands in all places.
template <int N> __device__ void note_leaders(const FirstTwo &mine, Key *first) {
    __shared__ Key of_warp[THREADS / 32][2];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    FirstTwo two = first_two_of_warp(mine);
    if (lane == 0)
        of_warp[warp][0] = two.best, of_warp[warp][1] = two.second;
    __syncthreads();
    if (warp > 0)
        return;
    Key next = lane < THREADS / 32 ? of_warp[lane][0] : 0;
#pragma unroll 1 // which takes fewer registers
    for (int i = 0; i < N; ++i) {
        Key best = max_over_warp(next);
        if (best && best == next)
            next = of_warp[lane][1];
        if (lane == 0)
            first[i] = best;
    }
}

// Where nobody may be chosen it is the first.
__device__ inline long long token_of(Key best) { return best ? column_of(best) : 0; }
