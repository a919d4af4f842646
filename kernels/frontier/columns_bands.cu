// columns_bands: both looks in one launch, a band of adjacent strips after the other, so that the
// second look at a band finds in the L2 what the first has read.  Blocks draw tickets: for a piece
// of a strip's rows that is looked at first, which waits for nobody, or for one of an earlier band
// whose results are written, which waits for the strip's pairs.
//   moves    X once from memory, and once more from the L2 where that holds a band; 8 bytes a place
//            and piece; Y once
//   launch   grid = 2 * pieces of all bands, block = THREADS
//   holds    any rows, of any strides, on any GPU from Ampere on
//   teaches  what no cluster holds the L2 may; who waits only for lower tickets than its own, of
//            which every block has started, waits for an end, whatever else is on the GPU
//   source   own; the last block to arrive goes on: CUDA C++ Programming Guide, memory fences

#include "columns_strip.cuh"

// Of places, each half beside the launch's number: who sees the number sees the half.
struct Posted {
    unsigned long long max, sum;
};

// Pairs that are merged at once.
constexpr int MERGED = 32;

// Zero at first, and as it has to be for the next launch after each: of all launches that share it
// counters lie where counters do, and pairs where pairs do.
struct Meeting {
    unsigned launches, done, ticket, unused;

    __device__ unsigned *counters() { return &unused + 1; }
    __device__ Posted *posted(long long capacity) {
        return reinterpret_cast<Posted *>(counters()) + capacity;
    }
};

__device__ inline unsigned long long beside(unsigned number, float v) {
    return static_cast<unsigned long long>(number) << 32 | __float_as_uint(v);
}

// What the holder of a ticket does: looks at a piece or writes it.  Looks are ``ahead`` of writes,
// then both take turns.
struct Task {
    bool writes;
    long long piece;

    __device__ Task(long long ticket, long long pieces, long long ahead) {
        long long turns = 2 * (pieces - ahead), after = ticket - ahead;
        writes = after >= turns || (after >= 0 && after % 2 == 0);
        if (after < 0)
            piece = ticket;
        else if (after >= turns)
            piece = after - (pieces - ahead);
        else
            piece = writes ? after / 2 : ahead + after / 2;
    }
};

// Whether this block is the last of ``count`` to arrive; it then sees what the others wrote.
__device__ inline bool arrives_last(unsigned *counter, int count) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(counter, 1u) == count - 1u;
        if (last)
            *counter = 0; // for the next launch
        __threadfence();
    }
    __syncthreads();
    return last;
}

template <class T, int BYTES, int LANES, int THREADS, bool LOG>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    softmax_columns(const T *x, T *out, Partial *partials, Meeting *meeting, long long x_outer,
                    long long x_step, long long out_outer, long long out_step, long long numbers,
                    int pitch, int units, int cols, int splits, int share, int strips, int band,
                    int ahead, int backwards, int capacity) {
    using Mine = Unit<T, BYTES>;
    constexpr int EACH = Mine::PLACES, PLACES = LANES * EACH, GROUPS = THREADS / LANES;
    await_turn();
    __shared__ unsigned drawn;
    if (threadIdx.x == 0)
        drawn = atomicAdd(&meeting->ticket, 1u);
    __syncthreads();
    unsigned number = *(volatile unsigned *)&meeting->launches + 1;
    number += number == 0; // what was never written is 0

    Task task(drawn, gridDim.x / 2, ahead);
    int of_band = band * splits, at = int(task.piece % of_band);
    if (backwards && task.writes)
        at = of_band - 1 - at;
    // Strips side by side at once: memory is then read by rows, whatever their width.
    int strip = int(task.piece / of_band) * band + at % band, split = at / band;
    if (strip < strips) {
        int lane = threadIdx.x % LANES;
        Spot spot(static_cast<unsigned long long>(strip) * LANES + lane, numbers, pitch, units);
        Share mine(split, share, cols, threadIdx.x / LANES, GROUPS, spot.there);
        x += spot.in(x_outer, Mine::PLACES) + mine.first * x_step;
        Units<T, Mine> piece(task.writes ? lets_go() : keeps(), x, GROUPS * x_step, mine.count);
        Posted *posted = meeting->posted(capacity) + static_cast<long long>(strip) * PLACES;
        if (!task.writes) {
            // Of a strip: the pairs of its pieces, and of MERGED of them each.
            int groups = (splits + MERGED - 1) / MERGED, group = split / MERGED;
            int of_group = min(MERGED, splits - group * MERGED);
            Partial *pairs = partials + static_cast<long long>(strip) * (splits + groups) * PLACES;
            Partial *of_groups = pairs + static_cast<long long>(splits) * PLACES;
            unsigned *counters = meeting->counters() + static_cast<long long>(strip) * (groups + 1);
            first_look<T, Mine, LANES, THREADS>(
                piece, [&](int place, Partial pair) { pairs[split * PLACES + place] = pair; });
            if (arrives_last(counters + group, of_group)) {
                Partial all =
                    merge_pairs<PLACES, THREADS>(pairs + group * MERGED * PLACES, of_group);
                if (threadIdx.x < PLACES)
                    of_groups[group * PLACES + threadIdx.x] = all;
                if (arrives_last(counters + groups, groups)) {
                    all = told<T, LOG>(merge_pairs<PLACES, THREADS>(of_groups, groups));
                    if (threadIdx.x < PLACES) {
                        volatile Posted *to = posted + threadIdx.x;
                        to->max = beside(number, all.max);
                        to->sum = beside(number, all.sum);
                    }
                }
            }
        } else {
            __shared__ Partial rows[PLACES];
            for (int place = threadIdx.x; place < PLACES; place += THREADS) {
                const volatile Posted *from = posted + place;
                unsigned long long max, sum;
                do {
                    max = from->max;
                    sum = from->sum;
                } while (max >> 32 != number || sum >> 32 != number);
                rows[place] = {__uint_as_float(unsigned(max)), __uint_as_float(unsigned(sum))};
            }
            __syncthreads();
            AtPlace<T, LOG> of[EACH];
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                Partial row = rows[e * LANES + lane];
                of[e] = {row.max, row.sum};
            }
            out += spot.in(out_outer, Mine::PLACES) + mine.first * out_step;
            second_look(piece, out, GROUPS * out_step, of);
        }
    }
    // The last block leaves all as the next launch needs it: nobody else is still to draw or post.
    if (threadIdx.x == 0 && atomicAdd(&meeting->done, 1u) == gridDim.x - 1) {
        meeting->done = meeting->ticket = 0;
        meeting->launches = number;
    }
}
