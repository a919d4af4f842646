// race: the token whose logit and noise are largest together, which is a sample of the softmax; of
// equals the first.  Noise is computed in full only for who might win: first a vector's largest
// logit, then a bound from the word of each are compared with the warp's best so far.
//   source   own; the largest logit beside Gumbel noise: see random.cuh
#pragma once
#include "random.cuh"

struct Race {
    Words words;
    float inverse_temperature;
    Key best = 0;                  // score and column, a lane's own
    float limit = -3.40282347e38f; // of the warp: who is below cannot win; nor can -inf

    __device__ Race(Words words, float inverse_temperature)
        : words(words), inverse_temperature(inverse_temperature) {}

    __device__ float scaled(float v) const { return __fmul_rn(v, inverse_temperature); }

    __device__ void enter(float logit, int column, unsigned word) {
        float score = __fadd_rn(logit, gumbel(word));
        if (score != -CUDART_INF_F)
            best = max(best, key_of<float>(score, column));
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
        if (unsigned score = max_over_warp(static_cast<unsigned>(best >> 32)))
            limit = score == ~0u ? CUDART_INF_F : value_of<float>(score);
    }

    // The best of all threads of the block.
    __device__ Key of_block() const {
        __shared__ Key of_warp[THREADS / 32];
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        Key mine = max_over_warp(best);
        if (lane == 0)
            of_warp[warp] = mine;
        __syncthreads();
        return max_over_warp(lane < THREADS / 32 ? of_warp[lane] : 0);
    }
};

// Where nobody may be chosen it is the first.
__device__ inline long long token_of(Key best) { return best ? column_of(best) : 0; }
