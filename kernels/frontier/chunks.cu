// chunks: rows in chunks, dealt to one block a multiprocessor by tickets; a chunk waits on chip
// until all of its row has been seen.
//   moves    X once, Y once
//   launch   cooperative, grid = multiprocessors; warps a block: REDUCERS (INVARIANT: twice) +
//            WRITERS + 3 (INVARIANT: 5)
//   holds    rows that the rings of all blocks hold together; Hopper and later
//   teaches  work that is dealt out, not divided, lets fast multiprocessors take more of it
//   source   shared/KERNELS.md, Dc
//
// The warps of a block pass chunks on, in a ring of SLOTS in shared memory, then in the registers
// of the writers, AHEAD chunks of them:
//   dealer    takes a ticket (``together`` chunks of a row) once as many slots are free, and with
//             them no more than ``coming`` chunks are on their way; loads them.  The first tickets
//             are the blocks' numbers
//   reducers  maximum and sum of a chunk                                          [full]
//   poster    makes one pair of a ticket's chunks and posts it in global memory   [reduced]
//   gatherer  waits until all tickets of the row are posted; makes them one       [full]
//   writers   take the chunk from its slot, and write its probabilities           [full, ready]
// INVARIANT: reducers find the maximum alone; with the row's, summers add [ready], a second poster
// and a second gatherer make the row's total of theirs [summed, ready], and writers wait for it.
// A ticket is only taken with room for all its chunks, so what is taken is posted without waiting
// for anybody; gatherers wait for tickets of one row at most, which the rings of all blocks hold.
// A slot is ``empty`` when all who read of its chunk have left it, posters too: what they read of a
// place on chip is written again only after a later slot was empty, AHEAD chunks on.

#include "bulk.cuh"
#include "deal.cuh"

// Lanes of a warp that leave what a barrier guards.  One that arrives after a __syncwarp would do;
// Compute Sanitizer's racecheck takes an order from the lane alone that arrives, and so all do.
constexpr int LEAVING = 32;

template <class T, int CHUNK, int SLOTS, int REDUCERS, int WRITERS, int AHEAD, int EDGES,
          bool INVARIANT, class... Given>
__global__ void __launch_bounds__((REDUCERS * (1 + INVARIANT) + WRITERS + 3 + 2 * INVARIANT) * 32,
                                  1)
    softmax(const T *x, T *out, long long x_stride, long long out_stride, int cols, int rows,
            int chunks, int vectors, int together, int coming, Scratch *scratch, Given... given) {
    // Chunks on chip: nobody is further ahead of the writers.
    constexpr int CHIP = SLOTS + AHEAD, SUMMERS = INVARIANT ? REDUCERS : 0;
    constexpr int POSTERS = 1 + INVARIANT;
    constexpr int EACH = CHUNK / (REDUCERS * 32), EACH_WRITTEN = CHUNK / (WRITERS * 32);
    extern __shared__ __align__(128) uint4 ring[]; // SLOTS x CHUNK
    __shared__ Barrier empty[SLOTS], full[CHIP], reduced[CHIP], ready[CHIP];
    __shared__ Barrier summed[INVARIANT ? CHIP : 1], totalled[INVARIANT ? CHIP : 1];
    __shared__ int2 which[CHIP]; // row and chunk; row -1 after the last
    __shared__ Partial of_warp[1 + INVARIANT][CHIP][REDUCERS], of_row[1 + INVARIANT][CHIP];
    __shared__ unsigned number;
    auto op = operator_of(given...);
    using Op = decltype(op);
    static_assert(!Op::TURNS, "what lies in a ring is looked at where its columns are not known");
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tickets = (chunks + together - 1) / together; // of a row

    await_turn();
    if (threadIdx.x < CHIP) {
        int s = threadIdx.x;
        if (s < SLOTS)
            init(&empty[s], (REDUCERS + SUMMERS + WRITERS + POSTERS) * LEAVING);
        init(&full[s], 1);
        init(&reduced[s], REDUCERS);
        init(&ready[s], LEAVING);
        if constexpr (INVARIANT) {
            init(&summed[s], SUMMERS);
            init(&totalled[s], LEAVING);
        }
        initialised();
        written();
    }
    __syncthreads();
    Place<SLOTS> slot;
    Place<CHIP> at;
    auto chunk = [&](int2 w) {
        return Chunk<T, EDGES>(x + w.x * x_stride, out + w.x * out_stride, cols, w.y, vectors);
    };
    auto next = [&] {
        slot.next();
        at.next();
    };
    // The warp has read all that it wants of what ``barrier`` guards.
    auto leave = [&](Barrier &barrier) {
        __syncwarp(); // for one instruction of all lanes
        arrive_at(&barrier);
    };
    // The slot's chunk in registers; the slot has one reader less.
    auto taken = [&](auto threads, const Chunk<T, EDGES> &c, int thread, auto &raw, float &edge) {
        c.template load<threads.value>(ring + slot.slot * CHUNK, thread, raw);
        edge = c.row.load_edge(c.edge_thread(thread), op);
        leave(empty[slot.slot]);
    };

    if (warp < REDUCERS) {
        for (;; next()) {
            wait(&full[at.slot], at.parity);
            int2 w = which[at.slot];
            Partial mine = no_partial();
            if (w.x >= 0) {
                uint4 raw[EACH];
                float edge, sum;
                taken(Constant<REDUCERS * 32>(), chunk(w), threadIdx.x, raw, edge);
                mine.max = max_over<32>(larger(largest<T>(raw), edge));
                if constexpr (!INVARIANT) {
                    Exponential<T, Op> of(op, base_of(mine.max));
                    sum = of(edge);
                    exponentials(raw, of, [&](float e) { sum += e; });
                    mine.sum = sum_over<32>(sum) * of.correction();
                }
            }
            if (lane == 0) {
                of_warp[0][at.slot][warp] = mine;
                arrive_at(&reduced[at.slot]);
            }
            if (w.x < 0)
                return;
        }
    }
    warp -= REDUCERS;
    if constexpr (INVARIANT) {
        if (warp < SUMMERS) {
            for (;; next()) {
                wait(&ready[at.slot], at.parity);
                int2 w = which[at.slot];
                Exact sum;
                if (w.x >= 0) {
                    uint4 raw[EACH];
                    float edge;
                    taken(Constant<SUMMERS * 32>(), chunk(w), warp * 32 + lane, raw, edge);
                    Exponential<T, Op> of(op, base_of(of_row[0][at.slot].max));
                    sum.add(of(edge));
                    exponentials(raw, of, [&](float e) { sum.add(e); });
                }
                if (Total mine = total_over<32>(sum.total()); lane == 0) {
                    of_warp[1][at.slot][warp] = as_partial(mine);
                    arrive_at(&summed[at.slot]);
                }
                if (w.x < 0)
                    return;
            }
        }
        warp -= SUMMERS;
    }
    if (warp < WRITERS) {
        int thread = warp * 32 + lane;
        uint4 held[AHEAD][EACH_WRITTEN];
        float edge[AHEAD];
        Place<CHIP> ahead;
        bool more = true;
        auto take = [&](uint4(&raw)[EACH_WRITTEN], float &edge) {
            if (!more)
                return;
            wait(&full[ahead.slot], ahead.parity);
            int2 w = which[ahead.slot];
            more = w.x >= 0;
            if (more)
                taken(Constant<WRITERS * 32>(), chunk(w), thread, raw, edge);
            ahead.next();
            slot.next();
        };
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            take(held[i], edge[i]);
        for (;;) {
#pragma unroll
            for (int i = 0; i < AHEAD; ++i, at.next()) {
                int2 w = which[at.slot];
                if (w.x < 0)
                    return;
                wait(INVARIANT ? &totalled[at.slot] : &ready[at.slot], at.parity);
                Partial row = of_row[INVARIANT][at.slot];
                Probability<T, INVARIANT, Op> of(op, base_of(row.max), row.sum);
                auto c = chunk(w);
                T *to = out + w.x * out_stride;
                probabilities(held[i], of, [&](int n, uint4 vector) {
                    int k = c.start + thread + WRITERS * 32 * n;
                    c.row.store(to, k, c.first, c.last, vector);
                });
                c.row.store_edge(to, c.edge_thread(thread), of(edge[i]));
                take(held[i], edge[i]);
            }
        }
    }
    warp -= WRITERS;
    if (warp == 0) { // dealer
        if (lane > 0)
            return;
        unsigned ticket = blockIdx.x; // the first is not dealt: it would take the time to the L2
        Place<CHIP> landed;
        int unlanded = 0; // chunks on their way, as far as is known
        number = *(volatile unsigned *)&scratch->launches + 1;
        number += number == 0; // what was never written is 0
        while (ticket < unsigned(rows) * tickets) {
            int row = ticket / tickets, first = (ticket - row * tickets) * together;
            for (int n = first; n < min(first + together, chunks); ++n, next()) {
                which[at.slot] = {row, n};
                ++unlanded;
                auto c = chunk({row, n});
                arrive_expecting(&full[at.slot], c.size() * 16);
                if (c.size() > 0)
                    load_bulk(ring + slot.slot * CHUNK + c.offset(), c.row.body() + c.first,
                              c.size() * 16, &full[at.slot]);
            }
            Place<SLOTS> free = slot;
            for (int i = 0; i < together; ++i, free.next())
                wait(&empty[free.slot], free.parity ^ 1); // at first they are
            for (; unlanded + together > coming; --unlanded, landed.next())
                wait(&full[landed.slot], landed.parity);
            // Not before: a ticket that waits keeps its row from everybody.
            ticket = gridDim.x + atomicAdd(&scratch->ticket, 1);
        }
        which[at.slot] = {-1, -1};
        arrive_at(&full[at.slot]);
        if (atomicAdd(&scratch->done, 1) == gridDim.x - 1) { // the last: ready for the next launch
            scratch->ticket = scratch->done = 0;
            scratch->launches = number;
        }
        return;
    }
    // Pairs of warps in ``some`` become pairs of tickets, after ``full``.
    auto post_tickets = [&](auto merge, Barrier *whole, const Partial(*some)[REDUCERS], int kind) {
        Partial so_far[2];
        for (;; next()) {
            wait(&whole[at.slot], at.parity);
            int2 w = which[at.slot];
            if (w.x < 0)
                return;
            so_far[1] = w.y % together == 0 ? merge.none() : so_far[0];
            so_far[0] = lane < REDUCERS ? some[at.slot][lane] : merge.none();
            leave(empty[slot.slot]);
            so_far[0] = merge.over_warp(so_far[0]);
            so_far[0] = merge.all(so_far);
            if (lane == 0 && (w.y % together == together - 1 || w.y == chunks - 1))
                post(scratch->posted + (kind * (long long)rows + w.x) * tickets + w.y / together,
                     number, so_far[0]);
        }
    };
    // Pairs of tickets become the row's, after ``known``; ``keep`` writes it, and ``told`` says so.
    auto gather_rows = [&](auto merge, Barrier *known, Barrier *told, int kind, auto keep) {
        int last = -1;
        Partial row = merge.none();
        for (;; next()) {
            wait(&known[at.slot], at.parity);
            int2 w = which[at.slot];
            if (w.x >= 0 && w.x != last) {
                last = w.x;
                auto posted = scratch->posted + (kind * (long long)rows + w.x) * tickets;
                row = tickets <= 32 ? collect<1>(merge, posted, tickets, number)
                                    : collect<8>(merge, posted, tickets, number);
                __syncwarp();
                row = merge.over_warp(row);
            }
            if (lane == 0)
                keep(row);
            leave(told[at.slot]);
            if (w.x < 0)
                return;
        }
    };
    if (warp == 1)
        post_tickets(Merge<false, Op>{op}, reduced, of_warp[0], 0);
    else if (warp == 2)
        gather_rows(Merge<false, Op>{op}, full, ready, 0,
                    [&](Partial row) { of_row[0][at.slot] = row; });
    if constexpr (INVARIANT) {
        if (warp == 3)
            post_tickets(Merge<true, Op>{op}, summed, of_warp[1], 1);
        else if (warp == 4)
            gather_rows(Merge<true, Op>{op}, ready, totalled, 1, [&](Partial row) {
                of_row[1][at.slot] = of_total(of_row[0][at.slot].max, as_total(row));
            });
    }
}
