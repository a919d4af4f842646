// bulk: copies between global and shared memory by the copy engine, and the barrier that counts
// their bytes.  Addresses and sizes are multiples of 16 bytes.
//   source   PTX ISA: mbarrier, cp.async.bulk; CUDA C++ Programming Guide, asynchronous proxies
#pragma once

using Barrier = unsigned long long;

__device__ inline unsigned shared_address(const void *p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// One thread, before any other touches the barrier: it opens when ``arrivals`` and all bytes that
// they announce are there.
__device__ inline void init(Barrier *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

// After the last init: this block and its cluster see them after their next barrier.
__device__ inline void initialised() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive_expecting(Barrier *barrier, unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ inline void arrive_at(Barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

// Wait for the barrier's phase of this parity: 0 first, then 1, 0, ...
__device__ inline void wait(Barrier *barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again_%=:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again_%=;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ inline void load_bulk(void *to, const void *from, unsigned bytes, Barrier *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// What was written to shared memory so far, barriers too, is there for the copies that follow.  It
// waits for the thread's loads: not to be called while they are on their way.
__device__ inline void written() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Returns once ``from`` has been read.
__device__ inline void store_bulk(void *to, const void *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                 "cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group.read 0;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}
