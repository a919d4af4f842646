// cuda_topk: the K largest probabilities of a row and their columns, the row read once.
//   moves    X once, K values and K indices a row
//   launch   grid = rows, block = THREADS = 128: at K = 32 a thread's list takes some 100 registers
//            and spills none, four or five blocks a multiprocessor; the lists of 256 threads, once
//            they meet in shared memory, would pass the 48 KB that a block has without asking
//   holds    K = 1 ... 32, cols >= K, any row stride; rows off 16 bytes go element by element
//   teaches  a sweep that sums and selects at once writes nothing of the row's size, and what
//            ever longer lists cost the threads that keep them
//   source   Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 4; how the threads' lists are
//            merged it leaves open: here a warp takes the largest of its lanes' heads, K times

#include "element.cuh"
#include "online.cuh"

static_assert(1 <= K && K <= 32 && THREADS >= 32 && (THREADS & (THREADS - 1)) == 0);

// A value as an integer of the same order, and its column.
struct Entry {
    int key, column;
};

// Below every value's, -inf included: a row with fewer than K columns above -inf has K indices too.
constexpr int NO_KEY = -2147483647 - 1;
constexpr Entry NOTHING{NO_KEY, -1};

// Negative floats are ordered as integers once all but their sign is inverted; its own inverse.
__device__ inline int ordered(int bits) { return bits ^ (bits >> 31 & 0x7fffffff); }

// One NaN would have NO_KEY.
__device__ inline int key_of(float v) { return max(ordered(__float_as_int(v)), NO_KEY + 1); }

// What a thread has seen, the K largest in order; in registers, since loops over it are unrolled.
struct Largest {
    Entry at[K];

    __device__ Largest() {
#pragma unroll
        for (int k = 0; k < K; ++k)
            at[k] = NOTHING;
    }

    __device__ void insert(Entry one) {
        if (one.key <= at[K - 1].key)
            return;
#pragma unroll
        for (int k = K - 1; k > 0; --k)
            at[k] = one.key > at[k - 1].key ? at[k - 1] : one.key > at[k].key ? one : at[k];
        if (one.key > at[0].key)
            at[0] = one;
    }
};

// The K largest of the lists of a warp's lanes, the r-th for lane r.  A list is ``length`` entries
// in order, THREADS apart.
__device__ inline Entry merged(const Entry *list, int length) {
    int lane = threadIdx.x % 32, taken = 0;
    Entry mine = NOTHING, head = length > 0 ? *list : NOTHING;
#pragma unroll 1
    for (int r = 0; r < K; ++r) {
        int best = __reduce_max_sync(EVERY_LANE, head.key);
        int owner = __ffs(__ballot_sync(EVERY_LANE, head.key == best)) - 1;
        int column = __shfl_sync(EVERY_LANE, head.column, owner);
        if (lane == r)
            mine = {best, column};
        if (lane == owner)
            head = ++taken < length ? list[taken * THREADS] : NOTHING;
    }
    return mine;
}

// Shares the row among the threads: visit(value, column).
template <class T, class Visit> __device__ void each(const T *x, int cols, Visit visit) {
    constexpr int WIDE = 16 / sizeof(T);
    auto vectors = reinterpret_cast<const uint4 *>(x);
    int whole = reinterpret_cast<unsigned long long>(x) % 16 ? 0 : cols / WIDE;
    uint4 next = threadIdx.x < whole ? vectors[threadIdx.x] : uint4{};
#pragma unroll 1
    for (int i = threadIdx.x; i < whole; i += THREADS) {
        uint4 now = next;
        if (i + THREADS < whole) // under way while this one is worked on
            next = vectors[i + THREADS];
#pragma unroll
        for (int c = 0; c < WIDE; ++c)
            visit(widen(reinterpret_cast<const T *>(&now)[c]), WIDE * i + c);
    }
    for (int j = WIDE * whole + threadIdx.x; j < cols; j += THREADS)
        visit(widen(x[j]), j);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    softmax(const T *x, T *values, long long *indices, long long x_stride, long long values_stride,
            long long indices_stride, int cols) {
    __shared__ Entry lists[K * THREADS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    Partial row = EMPTY;
    Largest seen;
    each(x + blockIdx.x * x_stride, cols, [&](float v, int column) {
        row.add(v);
        seen.insert({key_of(v), column});
    });
    row = over_block(row);

#pragma unroll
    for (int k = 0; k < K; ++k)
        lists[k * THREADS + threadIdx.x] = seen.at[k];
    Entry mine = merged(lists + threadIdx.x, K);
    __syncthreads(); // the lists are read, and make room for one a warp
    if (lane < K)
        lists[lane * THREADS + warp] = mine;
    __syncthreads();
    if (warp > 0)
        return;
    mine = merged(lists + lane, lane < THREADS / 32 ? K : 0);

    float p = exponential(__int_as_float(ordered(mine.key)) - row.max) * __frcp_rn(row.sum);
    // No approximation promises to keep the order of neighbours.
    for (int step = 1; step < K; step *= 2)
        p = fminf(p, __shfl_up_sync(EVERY_LANE, p, step));
    if (lane < K) {
        values[blockIdx.x * values_stride + lane] = narrow<T>(p);
        indices[blockIdx.x * indices_stride + lane] = mine.column;
    }
}
