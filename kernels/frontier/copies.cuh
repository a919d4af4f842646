// copies: from global to shared memory past the registers, 16 bytes a thread, which go on with
// something else until they await them.
//   source   PTX ISA: cp.async
#pragma once
#include "bulk.cuh"

__device__ inline void copy_async(uint4 *to, const uint4 *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

// And into the L2 what lies around it, as load_around.
__device__ inline void copy_around(uint4 *to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from)
                 : "memory");
}

// Until all that this thread copies is there.
__device__ inline void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
