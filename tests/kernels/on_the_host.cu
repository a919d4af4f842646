// on_the_host: a kernel of kernels/ compiled by a C++ compiler, to be run without a GPU.
// The threads of a warp take turns, each from one meeting (a shuffle, a vote) to the next, and the
// warps of a block, each from one barrier to the next; in every other block the last warp goes
// first. Every thread that is still there must come to the same meetings. The headers of CUDA are
// empty here; what a kernel takes from them stands below, float16 by name alone. KERNEL is its
// file, CALLS one of functions that launch it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __expf(v) std::exp(v)
#define __cvta_generic_to_shared(p) reinterpret_cast<unsigned long long>(p)
#define CUDART_INF_F HUGE_VALF
#define CUDART_NAN_F NAN

using std::max;
using std::min;

constexpr int STACK = 1 << 16;
constexpr int MOST = 1024;

struct Index {
    unsigned x;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

struct Thread {
    ucontext_t at;
    std::unique_ptr<char[]> stack{new char[STACK]}; // of memory that nobody touches unasked
    int meetings;
    bool there, at_barrier;
};
static Thread threads[MOST];
static ucontext_t turns;
static int said[2][MOST]; // at this meeting and at the one before, which others may still read

// What each thread of this one's warp says, in the order of its lanes.
static const int *meet(int mine) {
    Thread &self = threads[threadIdx.x];
    int *all = said[self.meetings++ % 2];
    all[threadIdx.x] = mine;
    swapcontext(&self.at, &turns);
    return all + threadIdx.x / 32 * 32;
}

template <class To, class From> To same_bits(From v) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &v, sizeof to);
    return to;
}

static int lane() { return threadIdx.x % 32; }
static void __syncwarp() { meet(0); }
static void __syncthreads() {
    threads[threadIdx.x].at_barrier = true;
    meet(0);
}
static int __float_as_int(float v) { return same_bits<int>(v); }
static float __int_as_float(int v) { return same_bits<float>(v); }
static unsigned __float_as_uint(float v) { return same_bits<unsigned>(v); }
static float __uint_as_float(unsigned v) { return same_bits<float>(v); }
static float __saturatef(float v) { return v > 0.0f ? min(v, 1.0f) : 0.0f; }
static float __frcp_rn(float v) { return 1.0f / v; }
static float __ull2float_rn(unsigned long long v) { return float(v); }
static int __ffs(unsigned v) { return __builtin_ffs(v); }

extern "C" {
int misaligned = 0; // loads and stores at which a GPU would have stopped
int beyond = 0;     // vectors written next to the shared memory that was asked for
int outside = 0;    // loads from the input, ``size`` bytes, of what is not in one of its rows
const char *input = nullptr;
long long size = 0, before = 0, row = 0,
          stride = 0; // bytes before the first row, of it, between two
}

struct alignas(16) uint4 {
    unsigned x = 0, y = 0, z = 0, w = 0;

    uint4() = default;
    uint4(unsigned x, unsigned y, unsigned z, unsigned w) : x(x), y(y), z(z), w(w) {}
    uint4(const uint4 &other) { *this = other; }
    uint4 &operator=(const uint4 &other) {
        misaligned += reinterpret_cast<unsigned long long>(&other) % 16 != 0;
        misaligned += reinterpret_cast<unsigned long long>(this) % 16 != 0;
        auto at = reinterpret_cast<const char *>(&other) - input;
        if (size > 0 && at >= 0 && at < size)
            outside += at < before || (at - before) % stride + 16 > row;
        std::memcpy(static_cast<void *>(this), static_cast<const void *>(&other), sizeof *this);
        return *this;
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static float4 __ldg(const float4 *v) { return *v; }

struct float2 {
    float x, y;
};
static float2 __ldcg(const float2 *at) { return *at; }

struct __half {
    unsigned short half;

    __half() = default;
    explicit __half(float);
    operator float() const;
};
struct __half2 {
    unsigned halves;
};
float __half2float(__half);
__half __float2half_rn(float);
float2 __half22float2(__half2);
__half2 __floats2half2_rn(float, float);
__half2 __hmax2_nan(__half2, __half2);
__half2 __hsub2(__half2, __half2);
static unsigned __byte_perm(unsigned low, unsigned high, unsigned bytes) {
    auto both = static_cast<unsigned long long>(high) << 32 | low;
    unsigned made = 0;
    for (int i = 0; i < 4; ++i)
        made |= unsigned(both >> 8 * (bytes >> 4 * i & 7) & 0xff) << 8 * i;
    return made;
}
static unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    auto both = static_cast<unsigned long long>(high) << 32 | low;
    return unsigned(both >> (bits & 31));
}
float __low2float(__half2);
float __high2float(__half2);

struct __nv_bfloat16 {
    unsigned short half;

    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float v) {
        unsigned whole = same_bits<unsigned>(v), odd = whole >> 16 & 1;
        half = v == v ? (whole + 0x7fff + odd) >> 16 : 0x7fff;
    }
    operator float() const { return same_bits<float>(unsigned(half) << 16); }
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
static float __bfloat162float(__nv_bfloat16 v) { return float(v); }
static __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
static __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    return {__nv_bfloat16(a), __nv_bfloat16(b)};
}
static float __low2float(__nv_bfloat162 v) { return v.x; }
static float __high2float(__nv_bfloat162 v) { return v.y; }
static __nv_bfloat16 larger_or_nan(float a, float b) {
    return __nv_bfloat16(a > b || a != a ? a : b);
}
static __nv_bfloat162 __hmax2_nan(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {larger_or_nan(a.x, b.x), larger_or_nan(a.y, b.y)};
}
static __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__nv_bfloat16(a.x - b.x), __nv_bfloat16(a.y - b.y)};
}

// Shared memory of ``dynamic_vectors``, between guards; every block finds NaN there.
constexpr int GUARD = 4, MOST_SHARED = 1 << 14;
static uint4 dynamic_shared[MOST_SHARED];
static int dynamic_vectors = 0;
static const uint4 NOT_A_NUMBER(~0u, ~0u, ~0u, ~0u);

static void fill_shared() {
    std::fill_n(dynamic_shared, dynamic_vectors + 2 * GUARD, NOT_A_NUMBER);
}
static void look_beyond() {
    for (int i = 0; i < GUARD; ++i)
        for (int at : {i, GUARD + dynamic_vectors + i})
            beyond += std::memcmp(&dynamic_shared[at], &NOT_A_NUMBER, 16) != 0;
}

// Copies that a thread has asked for and not yet waited for.
static std::vector<std::pair<uint4 *, const uint4 *>> copies[MOST];
static void copy_later(uint4 *to, const uint4 *from) { copies[threadIdx.x].emplace_back(to, from); }
static void copy_now() {
    for (auto [to, from] : copies[threadIdx.x])
        *to = *from;
    copies[threadIdx.x].clear();
}

template <class V> V __shfl_sync(unsigned, V v, int from) {
    return same_bits<V>(meet(same_bits<int>(v))[from]);
}
template <class V> V __shfl_xor_sync(unsigned all, V v, int mask) {
    return __shfl_sync(all, v, lane() ^ mask);
}
template <class V> V __shfl_up_sync(unsigned all, V v, int step) {
    return __shfl_sync(all, v, lane() < step ? lane() : lane() - step);
}
static int __reduce_max_sync(unsigned, int v) {
    const int *all = meet(v);
    return *std::max_element(all, all + 32);
}
// One thread at a time.
template <class V> V atomicAdd(V *to, V v) {
    V old = *to;
    *to += v;
    return old;
}
static void __threadfence() {}
static unsigned __ballot_sync(unsigned, bool v) {
    const int *all = meet(v);
    unsigned votes = 0;
    for (int i = 0; i < 32; ++i)
        votes |= static_cast<unsigned>(all[i]) << i;
    return votes;
}

#include KERNEL

static void (*body)(const void *);
static const void *given;

static void begin() {
    body(given);
    threads[threadIdx.x].there = false;
}

// Takes a warp to the next barrier of its block, or to its end; whether it was still there.
static bool advance(int warp) {
    bool any = false;
    for (bool going = true; going;) {
        going = false;
        for (int t = 32 * warp; t < 32 * (warp + 1); ++t) {
            if (!threads[t].there || threads[t].at_barrier)
                continue;
            any = going = true;
            threadIdx.x = t;
            swapcontext(&turns, &threads[t].at);
        }
    }
    return any;
}

template <class Call> void launch(int blocks, int size, const Call &call) {
    body = [](const void *arguments) { (*static_cast<const Call *>(arguments))(); };
    given = &call;
    blockDim.x = size;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < unsigned(blocks); ++blockIdx.x) {
        fill_shared();
        for (int t = 0; t < size; ++t) {
            Thread &thread = threads[t];
            thread.meetings = 0;
            thread.there = true;
            thread.at_barrier = false;
            getcontext(&thread.at);
            thread.at.uc_stack.ss_sp = thread.stack.get();
            thread.at.uc_stack.ss_size = STACK;
            thread.at.uc_link = &turns;
            makecontext(&thread.at, begin, 0);
        }
        for (bool any = true; any;) {
            any = false;
            for (int warp = 0; warp < size / 32; ++warp)
                any |= advance(blockIdx.x % 2 ? size / 32 - 1 - warp : warp);
            for (int t = 0; t < size; ++t)
                threads[t].at_barrier = false;
        }
        look_beyond();
    }
}

#include CALLS
