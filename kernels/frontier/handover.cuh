// handover: programmatic dependent launch (turn.cuh) in two steps, for kernels whose blocks all
// work for a while: the next kernel is let in when all blocks have little left to do.  Let in
// before, its own would take room on a multiprocessor, and those of the kernel after it be spread
// unevenly.
//   source   PTX ISA: griddepcontrol
#pragma once

// Waits until the kernel before is done and its results are in memory.
__device__ inline void await_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel of the stream come, once all blocks are here.
__device__ inline void let_next_come() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
