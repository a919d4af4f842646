// handover: programmatic dependent launch (turn.cuh) in two steps, for kernels whose blocks all
// work for a while: whoever comes next is let in when a block has little left to do, and takes no
// room on a multiprocessor before, which would have its own blocks unevenly spread.
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
