// choice_on_the_host: what the kernels of top-k and sampling take from CUDA beside what stands in
// on_the_host.cu, which includes it before them, and their launch from 64-bit slots, as the driver
// has it.
#pragma once
#include <utility>

static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static double __longlong_as_double(long long bits) {
    double v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
}
static long long __double_as_longlong(double v) {
    long long bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits;
}
template <class V> V atomicMax(V *to, V v) {
    V before = *to;
    *to = std::max(before, v);
    return before;
}
// Where a is the larger one, what a sum is rounded by is a double.
static double __dadd_rd(double a, double b) {
    volatile double sum = a + b, rest = sum - a;
    return rest > b ? std::nextafter(sum, -INFINITY) : static_cast<double>(sum);
}
static float __fdiv_rn(float a, float b) { return a / b; }

static bool counted[MOST];
static int __syncthreads_count(bool mine) {
    counted[threadIdx.x] = mine;
    __syncthreads();
    auto all = std::count(counted, counted + blockDim.x, true);
    __syncthreads();
    return static_cast<int>(all);
}
static bool __syncthreads_or(bool mine) { return __syncthreads_count(mine) > 0; }

template <class Call> void launch(int blocks, int size, const Call &call);

template <class V> V from_slot(const long long &slot) {
    V v;
    std::memcpy(&v, &slot, sizeof v);
    return v;
}

template <class... A, std::size_t... I>
void spread(void (*kernel)(A...), int blocks, int threads, const long long *slots,
            std::index_sequence<I...>) {
    launch(blocks, threads, [=] { kernel(from_slot<A>(slots[I])...); });
}

template <class... A>
void run(void (*kernel)(A...), int blocks, int threads, const long long *slots) {
    spread(kernel, blocks, threads, slots, std::index_sequence_for<A...>());
}
