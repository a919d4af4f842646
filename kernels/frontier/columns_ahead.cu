// columns_ahead: blocks, or clusters of BLOCKS, that take one strip after the other.  While the
// registers hold a strip and its results are made, the next AHEAD ones are on their way to shared
// memory, so that the GPU's memory is never waited for twice: by a strip's last element, and by
// the first of the next.
//   moves    X once, Y once
//   launch   grid = as many clusters as are on the GPU at once, or as there are strips; block =
//            THREADS, cluster = BLOCKS; at least LEAST blocks a multiprocessor, each with AHEAD *
//            HELD * THREADS vectors of shared memory
//   holds    THREADS / LANES * HELD * BLOCKS rows, whose units are whole vectors; clusters: Hopper
//            and later
//   teaches  registers that are full of rows cannot load: what is loaded ahead needs a place of its
//            own
//   source   own; loads by cp.async (Ampere), of whose copies a thread takes only its own, so that
//            no barrier is between them

#include "columns_held.cuh"

__device__ inline void copy_ahead(uint4 *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

// What was copied since the last call is a batch, of which there may be none.
__device__ inline void end_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all of this thread's batches are there, but for the last LEFT.
template <int LEFT> __device__ void await_batches() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

template <class T, int BYTES, int LANES, int THREADS, int HELD, int BLOCKS, int LEAST, int AHEAD,
          bool LOG>
__global__ void __launch_bounds__(THREADS, LEAST)
    softmax_columns(const T *x, T *out, long long x_outer, long long x_step, long long out_outer,
                    long long out_step, long long numbers, int pitch, int units, int cols) {
    static_assert(BYTES == 16, "strips are copied vector by vector");
    using Mine = Unit<T, BYTES>;
    constexpr int GROUPS = THREADS / LANES;
    await_turn();
    int lane = threadIdx.x % LANES, rank = blockIdx.x % BLOCKS, clusters = gridDim.x / BLOCKS;
    long long strips = (numbers + LANES - 1) / LANES;
    int share = (cols + BLOCKS - 1) / BLOCKS, last = min(cols, (rank + 1) * share);
    int first = rank * share + int(threadIdx.x) / LANES;
    auto spot_in = [&](long long strip) {
        return Spot(BYTES, sizeof(T), static_cast<unsigned long long>(strip) * LANES + lane,
                    x_outer, out_outer, numbers, pitch, units);
    };
    extern __shared__ uint4 ahead[];
    auto slot = [&](int stage, int i) {
        return ahead + (stage * HELD + i) * THREADS + threadIdx.x;
    };
    auto copy = [&](long long strip, int stage) {
        if (strip < strips) {
            Spot spot = spot_in(strip);
            const T *from = x + spot.source + first * x_step;
#pragma unroll
            for (int i = 0; i < HELD; ++i)
                if (spot.there && first + GROUPS * i < last)
                    copy_ahead(slot(stage, i), from + GROUPS * i * x_step);
        }
        end_batch();
    };

    long long strip = blockIdx.x / BLOCKS;
    for (int i = 0; i < AHEAD; ++i)
        copy(strip + static_cast<long long>(i) * clusters, i);
    __shared__ HeldColumns<T, BYTES, LANES, THREADS, HELD, BLOCKS, 2, LOG> all;
    all.begin();
    for (int turn = 0, stage = 0; strip < strips; ++turn, strip += clusters) {
        Spot spot = spot_in(strip);
        await_batches<AHEAD - 1>();
        Mine held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; ++i)
            held[i] = spot.there && first + GROUPS * i < last
                          ? Mine::load(reinterpret_cast<const T *>(slot(stage, i)))
                          : Mine::nothing();
        copy(strip + static_cast<long long>(AHEAD) * clusters, stage);
        stage = stage + 1 < AHEAD ? stage + 1 : 0;
        T *to = out + spot.to + first * out_step;
        all.results(turn, rank, held, [&](int i, Mine made) {
            if (spot.there && first + GROUPS * i < last)
                made.store(to + GROUPS * i * out_step);
        });
    }
}
