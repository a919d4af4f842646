// columns_strip: two looks at a block's share of the rows of a strip, of which it has some at a
// time: the first makes the pair of each place, the second the results.  The L2 is asked to keep
// what the first has read until the second has, and not what is written.
//   source   online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867
#pragma once
#include "columns_powers.cuh"
#include "keep.cuh"

// Units of a thread on their way at once: 16 words.
template <class Mine> constexpr int TOGETHER_OF = 16 / Mine::WORDS;

// A thread's units of a strip's rows ``split * share`` and after: one from each of ``count`` rows
// GROUPS apart, from row ``first`` on.
struct Share {
    long long first;
    int count;

    __device__ Share(int split, int share, int cols, int row, int groups, bool there) {
        first = static_cast<long long>(split) * share + row;
        long long last = min(static_cast<long long>(cols), first - row + share);
        count = there && first < last ? int((last - first - 1) / groups) + 1 : 0;
    }
};

// Vectors by a policy of the L2's; narrower units as any.
template <class Mine, class T> __device__ Mine load_by(unsigned long long policy, const T *from) {
    if constexpr (Mine::WORDS < 4) {
        return Mine::load(from);
    } else {
        uint4 raw = load_by(policy, static_cast<const void *>(from));
        Mine made;
        made.w[0] = raw.x, made.w[1] = raw.y, made.w[2] = raw.z, made.w[3] = raw.w;
        return made;
    }
}

template <class Mine, class T>
__device__ void store_by(unsigned long long policy, T *to, const Mine &made) {
    if constexpr (Mine::WORDS < 4)
        made.store(to);
    else
        store_by(policy, static_cast<void *>(to), {made.w[0], made.w[1], made.w[2], made.w[3]});
}

// A thread's ``count`` units, ``steps`` apart, of which it loads some at a time.
template <class T, class Mine> struct Units {
    unsigned long long policy;
    const T *here; // the unit that was gone to
    long long steps;
    int count;

    __device__ Units(unsigned long long policy, const T *start, long long steps, int count)
        : policy(policy), here(start), steps(steps), count(count) {}

    __device__ void go(int by) { here += by * steps; }

    // Those from here on, which is number ``first``; -inf after the last.
    template <int N> __device__ void load(int first, Mine (&some)[N]) const {
        const T *from = here;
        if (count - first >= N) {
#pragma unroll
            for (int i = 0; i < N; ++i, from += steps)
                some[i] = load_by<Mine>(policy, from);
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i, from += steps)
                some[i] = first + i < count ? load_by<Mine>(policy, from) : Mine::nothing();
        }
    }
};

// Whether all of a thread's bases are so small that one FMA makes an exponential of 16 bits.
template <class T, int EACH> __device__ bool by_one_fma(const float (&base)[EACH]) {
    bool small = sizeof(T) == 2;
#pragma unroll
    for (float b : base)
        small &= shift_of(b) == 0.0f;
    return small;
}

// The pairs of a block's share, of every place in one thread: ``tell(place, pair)``, where a place
// is e * LANES + lane.
template <class T, class Mine, int LANES, int THREADS, class Tell>
__device__ void first_look(Units<T, Mine> units, Tell tell) {
    constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH;
    constexpr int SETS = THREADS / 32, TOGETHER = TOGETHER_OF<Mine>;
    Partial mine[EACH];
#pragma unroll
    for (Partial &place : mine)
        place = no_partial();
    for (int done = 0; done < units.count; done += TOGETHER, units.go(TOGETHER)) {
        Mine some[TOGETHER];
        units.load(done, some);
        Mine top = some[0];
#pragma unroll
        for (int i = 1; i < TOGETHER; ++i)
            top.take_larger(some[i]);
        float max[EACH], base[EACH], sum[EACH];
        top.unpack(max);
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            max[e] = larger(max[e], mine[e].max);
            base[e] = base_of(max[e]);
            sum[e] = moved(Softmax{}, mine[e].sum, mine[e].max, base[e]);
        }
        auto exponentiate = [&](auto of) {
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                float v[EACH];
                some[i].unpack_again(v);
                of(v);
#pragma unroll
                for (int e = 0; e < EACH; ++e)
                    sum[e] += v[e];
            }
        };
        if (by_one_fma<T>(base)) {
            exponentiate(Powers<0, EACH>([&](int e) { return base[e] * -LOG2E; }));
        } else {
            exponentiate([&](float (&v)[EACH]) {
#pragma unroll
                for (int e = 0; e < EACH; ++e)
                    v[e] = exp2_fast((v[e] - base[e]) * LOG2E);
            });
        }
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            mine[e] = {max[e], sum[e]};
    }

    int lane = threadIdx.x % LANES;
    __shared__ Partial of_set[SETS][PLACES];
#pragma unroll
    for (Partial &place : mine) {
#pragma unroll
        for (int step = LANES; step < 32; step *= 2)
            place = merged(place, {__shfl_xor_sync(ALL_LANES, place.max, step),
                                   __shfl_xor_sync(ALL_LANES, place.sum, step)});
    }
    if (threadIdx.x % 32 < LANES) {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            of_set[threadIdx.x / 32][e * LANES + lane] = mine[e];
    }
    __syncthreads();
    for (int place = threadIdx.x; place < PLACES; place += THREADS) {
        Partial all = of_set[0][place];
#pragma unroll
        for (int i = 1; i < SETS; ++i)
            all = merged(all, of_set[i][place]);
        tell(place, all);
    }
}

// One pair of ``count``, PLACES apart, for each of the first PLACES threads; all threads take part.
template <int PLACES, int THREADS> __device__ Partial merge_pairs(const Partial *pairs, int count) {
    constexpr int PARTS = THREADS / PLACES;
    static_assert(PARTS > 0);
    __shared__ Partial part[PARTS][PLACES];
    int place = threadIdx.x % PLACES, mine = threadIdx.x / PLACES;
    Partial all = no_partial();
#pragma unroll 8 // all on their way at once
    for (int i = mine; i < count; i += PARTS) {
        // Another block wrote them: not from this multiprocessor's cache.
        auto pair = __ldcg(reinterpret_cast<const float2 *>(pairs) + i * (long long)PLACES + place);
        all = merged(all, {pair.x, pair.y});
    }
    part[mine][place] = all;
    __syncthreads();
    if (threadIdx.x < PLACES) {
        for (int i = 1; i < PARTS; ++i)
            all = merged(all, part[i][place]);
    }
    __syncthreads(); // before anybody calls again
    return all;
}

// The results of a block's share, last rows first, by ``of`` each place's maximum and sum.
template <class T, class Mine, bool LOG>
__device__ void second_look(Units<T, Mine> units, T *out, long long out_steps,
                            const AtPlace<T, LOG> (&of)[Mine::PLACES]) {
    constexpr int EACH = Mine::PLACES, TOGETHER = TOGETHER_OF<Mine>;
    float base[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        base[e] = of[e].base;
    bool small = !LOG && by_one_fma<T>(base);
    Powers<0, EACH> powers([&](int e) { return fmaf(base[e], -LOG2E, of[e].scale); });
    int done = (units.count - 1) / TOGETHER * TOGETHER; // before the last trip's
    units.go(done);
    out += done * out_steps;
    for (; done >= 0 && units.count > 0; done -= TOGETHER) {
        Mine some[TOGETHER];
        units.load(done, some);
        T *at = out;
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i, at += out_steps) {
            float v[EACH];
            some[i].unpack(v);
            if (small) {
                powers(v);
            } else {
#pragma unroll
                for (int e = 0; e < EACH; ++e)
                    v[e] = of[e](v[e]);
            }
            Mine made;
            made.pack(v);
            if (done + i < units.count)
                store_by(lets_go(), at, made);
        }
        units.go(-TOGETHER);
        out -= TOGETHER * out_steps;
    }
}
