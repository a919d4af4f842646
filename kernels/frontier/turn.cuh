// turn: programmatic dependent launch, by which a kernel's blocks are on the multiprocessors when
// the one before it in the stream ends, and wait there.
//   source   PTX ISA: griddepcontrol
#pragma once

// Lets the next kernel of the stream come, and waits until the one before is done and its results
// are in memory.  Nothing is read or written before.  Where a kernel is launched otherwise, or the
// GPU is older than Hopper, there is nothing to wait for.
__device__ inline void await_turn() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n"
                 "griddepcontrol.wait;" ::
                     : "memory");
#endif
}
