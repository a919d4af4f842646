// cluster: writes to the shared memory of the other blocks of a cluster, counted at a barrier
// there.
//   source   PTX ISA: mapa, st.async, barrier.cluster
#pragma once
#include "bulk.cuh"
#include "reduce.cuh"

// Write ``p`` to ``to`` in block ``rank`` of the cluster, and count it at ``barrier`` there.
__device__ inline void send(Partial p, Partial *to, Barrier *barrier, int rank) {
    auto word =
        static_cast<unsigned long long>(__float_as_uint(p.sum)) << 32 | __float_as_uint(p.max);
    asm volatile("{\n"
                 ".reg .b32 there, counted;\n"
                 "mapa.shared::cluster.u32 there, %0, %2;\n"
                 "mapa.shared::cluster.u32 counted, %1, %2;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], %3, "
                 "[counted];\n"
                 "}" ::"r"(shared_address(to)),
                 "r"(shared_address(barrier)), "r"(rank), "l"(word)
                 : "memory");
}

// Relaxed: all that the others have to see behind await() is the barriers, which initialised()
// (bulk.cuh) fences for them.  Nothing else that a block did before it arrived is ordered: what one
// block reads from memory and another overwrites there needs an order of its own.  A release would
// keep every warp from arriving until its own loads are there, and the loads are what the arrival
// is to hide behind.
__device__ inline void arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ inline void await() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
