// columns_held: a block, or a cluster of BLOCKS, takes a strip of LANES units of adjacent places
// and all rows, which its registers hold as they came, HELD units a thread, and its shared memory,
// STAGED more; maxima and sums of places meet in shared memory.
//   moves    X once, Y once
//   launch   grid = strips * BLOCKS, block = THREADS, cluster = BLOCKS; at least LEAST blocks a
//            multiprocessor
//   holds    THREADS / LANES * (HELD + STAGED) * BLOCKS rows of any strides; clusters: Hopper and
//            later; STAGED: units of 16 bytes; POLYNOMIAL eighths of exponentials: of 16 bits
//   teaches  strips are read without a transposition, and as fast as rows where they are 256 bytes
//            wide: for rows of so much, shared memory holds what registers do not; where all of a
//            tensor is on chip at once, no load hides its arithmetic
//   source   own, after block.cu and cluster.cu

#include "columns_exchange.cuh"
#include "columns_powers.cuh"
#include "copies.cuh"

template <class T, int BYTES, int LANES, int THREADS, int HELD, int STAGED, int BLOCKS, int LEAST,
          int POLYNOMIAL, bool LOG>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_columns(const T *x, T *out, long long x_outer, long long x_step, long long out_outer,
                    long long out_step, long long numbers, int pitch, int units, int cols) {
    using Mine = Unit<T, BYTES>;
    constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH, GROUPS = THREADS / LANES;
    // Of threads that know nothing of each other before the exchange: a warp's share its shuffles.
    constexpr int SETS = THREADS / (LANES < 32 ? 32 : LANES);
    constexpr bool EXCHANGES = SETS > 1 || BLOCKS > 1;
    constexpr int PARTS = THREADS < 2 * PLACES        ? 1
                          : THREADS / PLACES < BLOCKS ? THREADS / PLACES
                                                      : BLOCKS; // threads of a place
    constexpr bool EXPONENTIALS = sizeof(T) == 4 && !LOG;       // held in place of the elements
    constexpr bool POWERS = sizeof(T) == 2 && !LOG;             // of one FMA each, in both looks
    constexpr bool AROUND = LANES * BYTES < 256;
    static_assert(STAGED == 0 || BYTES == 16);
    static_assert(POLYNOMIAL == 0 || (sizeof(T) == 2 && BYTES == 16));
    await_turn();
    int lane = threadIdx.x % LANES, set = threadIdx.x / (LANES < 32 ? 32 : LANES);
    int rank = blockIdx.x % BLOCKS;
    Spot spot(static_cast<unsigned long long>(blockIdx.x / BLOCKS) * LANES + lane, numbers, pitch,
              units);
    int share = (cols + BLOCKS - 1) / BLOCKS, last = min(cols, (rank + 1) * share);
    int first = rank * share + int(threadIdx.x) / LANES;

    int rows = spot.there && first < last ? (last - first - 1) / GROUPS + 1 : 0; // this thread's

    Mine held[HELD];
    extern __shared__ uint4 image[]; // each thread's own: nobody else looks there
    auto staged = [&](int i) -> Mine & {
        return *reinterpret_cast<Mine *>(image + THREADS * i + threadIdx.x);
    };
    const T *from = x + spot.in(x_outer, Mine::PLACES) + first * x_step;
    T *to = out + spot.in(out_outer, Mine::PLACES) + first * out_step;
    long long x_steps = GROUPS * x_step;
    if (rows >= HELD + STAGED) { // of nearly all threads: nothing has to be asked of each row
#pragma unroll
        for (int i = 0; i < HELD; ++i, from += x_steps)
            held[i] = Mine::template load<AROUND>(from);
#pragma unroll 4
        for (int i = 0; i < STAGED; ++i, from += x_steps)
            copy_around(image + THREADS * i + threadIdx.x, from);
    } else {
#pragma unroll
        for (int i = 0; i < HELD; ++i, from += x_steps)
            held[i] = i < rows ? Mine::template load<AROUND>(from) : Mine::nothing();
#pragma unroll 1
        for (int i = 0; i < STAGED; ++i, from += x_steps) {
            if (HELD + i < rows)
                copy_around(image + THREADS * i + threadIdx.x, from);
            else
                staged(i) = Mine::nothing();
        }
    }

    __shared__ ColumnsExchange<BLOCKS, PLACES, PARTS> exchange;
    if constexpr (BLOCKS > 1)
        exchange.begin();

    Mine top = held[0];
#pragma unroll
    for (int i = 1; i < HELD; ++i)
        top.take_larger(held[i]);
    if constexpr (STAGED > 0)
        await_copies();
#pragma unroll 4
    for (int i = 0; i < STAGED; ++i)
        top.take_larger(staged(i));
    larger_over_warp<LANES>(top);
    bool speaks = threadIdx.x % 32 < LANES; // for the lanes of its warp that have its places

    // A place's pair is e * LANES + lane: neighbours write and read neighbouring banks.  Sums are
    // relative to the maxima of their own threads, so that none waits for the block's before.
    __shared__ float sums[SETS][PLACES], maxima[SETS][PLACES];
    float base[EACH], sum[EACH] = {};
    top.unpack(base);
    if (EXCHANGES && speaks) {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            maxima[set][e * LANES + lane] = base[e];
    }
#pragma unroll
    for (float &b : base)
        b = base_of(b);
    bool large = false;
#pragma unroll
    for (float b : base)
        large |= POWERS && shift_of(b) != 0.0f;
    if constexpr (POWERS) {
        if (large) {
            float shift[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                shift[e] = shift_of(base[e]);
                base[e] -= shift[e];
            }
            Mine shifts;
            shifts.pack(shift);
#pragma unroll
            for (Mine &each : held)
                each.subtract(shifts);
#pragma unroll 1
            for (int i = 0; i < STAGED; ++i)
                staged(i).subtract(shifts);
        }
    }
    Powers<POLYNOMIAL, EACH> relative([&](int e) { return base[e] * -LOG2E; });
    auto exponentiate = [&](Mine &mine) {
        float v[EACH];
        mine.unpack(v);
        if constexpr (POWERS) {
            relative(v);
        } else {
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                v[e] = exp2_fast((v[e] - base[e]) * LOG2E);
        }
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            sum[e] += v[e];
        if constexpr (EXPONENTIALS)
            mine.pack(v);
    };
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        exponentiate(held[i]);
#pragma unroll 2
    for (int i = 0; i < STAGED; ++i)
        exponentiate(staged(i));
#pragma unroll
    for (int step = LANES; step < 32; step *= 2) {
#pragma unroll
        for (float &s : sum)
            s += __shfl_xor_sync(ALL_LANES, s, step);
    }

    AtPlace<T, LOG> of[EACH];
    if constexpr (EXCHANGES) {
        __shared__ Partial pairs[PLACES];
        if (speaks) {
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                sums[set][e * LANES + lane] = sum[e];
        }
        __syncthreads();
        if constexpr (BLOCKS > 1)
            exchange.ready();
        auto place_of_block = [&](int place) {
            Partial all = {maxima[0][place], sums[0][place]};
            if constexpr (SETS > 1) {
#pragma unroll 4
                for (int i = 1; i < SETS; ++i)
                    all.max = larger(all.max, maxima[i][place]);
                all.sum = 0.0f;
#pragma unroll 2
                for (int i = 0; i < SETS; ++i)
                    all.sum += moved(Softmax{}, sums[i][place], maxima[i][place], base_of(all.max));
            }
            return all;
        };
        // All threads, of which some may have a place that another has too: lanes meet in of_all.
        int part = threadIdx.x % PARTS;
        constexpr int AT_ONCE = THREADS / PARTS;
        if constexpr (BLOCKS > 1)
            for (int place = threadIdx.x / PARTS; place < PLACES; place += AT_ONCE)
                exchange.tell(rank, place, part, place_of_block(place));
        for (int i = threadIdx.x / PARTS; i < (PLACES + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
             i += AT_ONCE) {
            int place = min(i, PLACES - 1);
            Partial all;
            if constexpr (BLOCKS > 1)
                all = exchange.of_all(place, part);
            else
                all = place_of_block(place);
            if (i == place && part == 0)
                pairs[place] = told<T, LOG>(all);
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            Partial pair = pairs[e * LANES + lane];
            of[e] = {pair.max, pair.sum};
            if constexpr (POWERS) // as this thread's elements are
                of[e].base -= shift_of(base_of(maxima[set][e * LANES + lane]));
            if constexpr (EXPONENTIALS)
                // From the maximum, not its base: a share of nothing but -inf adds 0 times 0.
                of[e].scale *= exp2_fast((maxima[set][e * LANES + lane] - of[e].base) * LOG2E);
        }
    } else {
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            of[e] = {base[e], told<T, LOG>({base[e], sum[e]}).sum};
    }

    Powers<POLYNOMIAL, EACH> result([&](int e) { return fmaf(of[e].base, -LOG2E, of[e].scale); });
    unsigned lost = 0; // places where all is NaN, of which a polynomial makes 0: their sum is too
    if constexpr (POLYNOMIAL > 0) {
#pragma unroll
        for (int e = 0; e < result.FIRST; ++e)
            lost |= unsigned(!(fabsf(of[e].scale) < CUDART_INF_F)) << e;
    }
    long long out_steps = GROUPS * out_step;
    auto give = [&](const Mine &mine, int i) {
        float v[EACH];
        mine.unpack_again(v);
        if constexpr (POWERS) {
            result(v);
        } else {
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                v[e] = EXPONENTIALS ? v[e] * of[e].scale : of[e](v[e]);
        }
        Mine made;
        made.pack(v);
        if (i < rows)
            made.store(to);
        to += out_steps;
    };
#pragma unroll
    for (int i = 0; i < HELD; ++i)
        give(held[i], i);
#pragma unroll(EXPONENTIALS ? 1 : 2) // two at once would take a register more than there are
    for (int i = 0; i < STAGED; ++i)
        give(staged(i), HELD + i);
    for (int e = 0; lost != 0; ++e, lost /= 2) {
        to = out + spot.in(out_outer, Mine::PLACES) + first * out_step + e;
#pragma unroll 1
        for (int i = 0; i < rows && lost % 2 != 0; ++i, to += out_steps)
            *to = T(CUDART_NAN_F);
    }
}
