// keep: vectors of 16 bytes that the L2 keeps before others, since they are read again soon, and
// such as it lets go of first.
//   source   PTX ISA: createpolicy, cache eviction priority hints
#pragma once

__device__ inline unsigned long long keeps() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ inline unsigned long long lets_go() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ inline uint4 load_by(unsigned long long policy, const void *at) {
    uint4 v;
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at), "l"(policy)
                 : "memory");
    return v;
}

__device__ inline void store_by(unsigned long long policy, void *at, uint4 v) {
    asm volatile("st.global.L2::cache_hint.v4.b32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(at), "r"(v.x),
                 "r"(v.y), "r"(v.z), "r"(v.w), "l"(policy)
                 : "memory");
}
