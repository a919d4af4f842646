// vectors: a row as vectors of 16 bytes, whatever its first byte and its length.
//
// A row is the elements before its first 16-byte boundary, vectors, and the elements after its last
// boundary.  The elements outside (fewer than two vectors of them) go one to a thread, so that no
// vector is ever cut.  EDGES says whether there may be such elements: 0, none; 1, some, and where
// the results go they lie as in the input; 2, there they may lie otherwise, and the boundaries are
// those of the results (load.cuh).
#pragma once
#include "turn.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

template <class T> constexpr int WIDTH = 16 / sizeof(T); // elements of a vector

// -inf in every element.
template <class T> constexpr unsigned NOTHING = 0xff800000;
template <> constexpr unsigned NOTHING<__half> = 0xfc00fc00;
template <> constexpr unsigned NOTHING<__nv_bfloat16> = 0xff80ff80;

template <class T> __device__ uint4 nothing() {
    return {NOTHING<T>, NOTHING<T>, NOTHING<T>, NOTHING<T>};
}

template <class To, class From> __device__ To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// The larger of two, NaN if one of them is.
__device__ inline float larger(float a, float b) {
    float max;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(max) : "f"(a), "f"(b));
    return max;
}
__device__ inline __half2 larger(__half2 a, __half2 b) { return __hmax2_nan(a, b); }
__device__ inline __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) {
    return __hmax2_nan(a, b);
}

// A word of a vector as one or two floats, and back.
template <class T> struct Word;
template <> struct Word<float> {
    static __device__ void unpack(unsigned word, float *v) { v[0] = __uint_as_float(word); }
    static __device__ unsigned pack(const float *v) { return __float_as_uint(v[0]); }
    static __device__ float raw(unsigned word) { return __uint_as_float(word); }
    static __device__ float widest(float a) { return a; }
};
template <> struct Word<__half> {
    static __device__ void unpack(unsigned word, float *v) {
        float2 two = __half22float2(bits<__half2>(word));
        v[0] = two.x, v[1] = two.y;
    }
    static __device__ void unpack_again(unsigned word, float *v) {
        float2 two = __half22float2(bits<__half2>(__byte_perm(word, 0, 0x1032)));
        v[0] = two.y, v[1] = two.x;
    }
    static __device__ unsigned pack(const float *v) {
        return bits<unsigned>(__floats2half2_rn(v[0], v[1]));
    }
    static __device__ __half2 raw(unsigned word) { return bits<__half2>(word); }
    static __device__ float widest(__half2 a) { return larger(__low2float(a), __high2float(a)); }
};
template <> struct Word<__nv_bfloat16> {
    static __device__ void unpack(unsigned word, float *v) {
        v[0] = __uint_as_float(word << 16), v[1] = __uint_as_float(word & 0xffff0000);
    }
    static __device__ void unpack_again(unsigned word, float *v) {
        v[0] = __uint_as_float(__byte_perm(word, 0, 0x1044));
        v[1] = __uint_as_float(__byte_perm(word, 0, 0x3244));
    }
    static __device__ unsigned pack(const float *v) {
        return bits<unsigned>(__floats2bfloat162_rn(v[0], v[1]));
    }
    static __device__ __nv_bfloat162 raw(unsigned word) { return bits<__nv_bfloat162>(word); }
    static __device__ float widest(__nv_bfloat162 a) {
        return larger(__low2float(a), __high2float(a));
    }
};

template <class T> __device__ void unpack(uint4 raw, float (&v)[WIDTH<T>]) {
    constexpr int EACH = WIDTH<T> / 4;
    Word<T>::unpack(raw.x, v);
    Word<T>::unpack(raw.y, v + EACH);
    Word<T>::unpack(raw.z, v + 2 * EACH);
    Word<T>::unpack(raw.w, v + 3 * EACH);
}

// The same by other instructions, so that the compiler does not keep what ``unpack`` made until
// here: the registers are the row's.
template <class T> __device__ void unpack_again(uint4 raw, float (&v)[WIDTH<T>]) {
    unpack<T>(raw, v);
    if constexpr (sizeof(T) == 2) {
        unsigned w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 8; i += 2)
            Word<T>::unpack_again(w[i / 2], v + i);
    }
}

template <class T> __device__ uint4 pack(const float (&v)[WIDTH<T>]) {
    constexpr int EACH = WIDTH<T> / 4;
    return {Word<T>::pack(v), Word<T>::pack(v + EACH), Word<T>::pack(v + 2 * EACH),
            Word<T>::pack(v + 3 * EACH)};
}

// The largest element of vectors: two at a time where elements have 16 bits.
template <class T> struct Largest {
    decltype(Word<T>::raw(0u)) a = Word<T>::raw(NOTHING<T>), b = a;

    __device__ void add(uint4 raw) {
        a = larger(a, larger(Word<T>::raw(raw.x), Word<T>::raw(raw.y)));
        b = larger(b, larger(Word<T>::raw(raw.z), Word<T>::raw(raw.w)));
    }

    __device__ float of_all() const { return Word<T>::widest(larger(a, b)); }
};

template <class T, int N> __device__ float largest(const uint4 (&raw)[N]) {
    Largest<T> found;
#pragma unroll
    for (const uint4 &each : raw)
        found.add(each);
    return found.of_all();
}

constexpr int LINE = 8; // vectors of a line of memory

// Elements from the last 16-byte boundary to ``p``.
template <class T> __device__ int past_boundary(const T *p) {
    return int(reinterpret_cast<unsigned long long>(p) % 16 / sizeof(T));
}

// Where a row lies: ``head`` elements, ``vectors`` vectors, ``tail`` elements.  With EDGES 2 the
// vectors start ``past`` elements after a boundary of the input, and head and tail are so long that
// all vectors between boundaries of which they take elements are the row's: fewer than four
// vectors.
template <class T, int EDGES> struct Row {
    const T *row;
    int cols, head, vectors, tail, past;

    __device__ Row(const T *row, int cols) : Row(row, row, cols) {}
    __device__ Row(const T *row, const T *to, int cols)
        : row(row), cols(cols), head(0), tail(0), past(0) {
        if constexpr (EDGES > 0)
            head = (WIDTH<T> - past_boundary(EDGES == 2 ? to : row)) % WIDTH<T>;
        if constexpr (EDGES == 2) {
            past = past_boundary(row + head);
            head += past > head ? WIDTH<T> : 0;
        }
        if constexpr (EDGES > 0)
            head = min(cols, head);
        vectors = (cols - head) / WIDTH<T>;
        if constexpr (EDGES == 2)
            vectors = past > 0 ? max(0, (cols - head + past) / WIDTH<T> - 1) : vectors;
        if constexpr (EDGES > 0)
            tail = EDGES == 2 ? cols - head - vectors * WIDTH<T> : (cols - head) % WIDTH<T>;
    }

    // From the last boundary of the input that is no later than the vectors.
    __device__ const uint4 *body() const {
        return reinterpret_cast<const uint4 *>(row + head - past);
    }

    // Vector i of the body, -inf outside.
    __device__ uint4 load(int i) const {
        return unsigned(i) < unsigned(vectors) ? body()[i] : nothing<T>();
    }

    // Vectors from the start of a line to the body: who counts from there asks for whole lines.
    __device__ int lead() const {
        return int(reinterpret_cast<unsigned long long>(body()) / 16 % LINE);
    }

    // Vector k into the row at ``out``, if it is from ``first`` to before ``last``.
    __device__ void store(T *out, int k, int first, int last, uint4 vector) const {
        T *at = out + head + k * WIDTH<T>;
        bool mine = k >= first && k < last;
        if (mine)
            *reinterpret_cast<uint4 *>(at) = vector;
    }

    // The same up to ``last`` by one instruction with a predicate: among edges the compiler else
    // branches around it, or makes four stores of it.
    __device__ void store_if(T *out, int k, int last, uint4 vector) const {
        asm volatile("{\n"
                     ".reg .pred mine;\n"
                     "setp.ne.b32 mine, %5, 0;\n"
                     "@mine st.global.v4.b32 [%0], {%1, %2, %3, %4};\n"
                     "}" ::"l"(out + head + k * WIDTH<T>),
                     "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w), "r"(int(k < last))
                     : "memory");
    }

    // The column of the edges' element of thread ``lane`` of the row's; -1 where it has none.
    __device__ int edge(int lane) const {
        if (lane < head)
            return lane;
        return lane < head + tail ? cols - tail + (lane - head) : -1;
    }

    // As ``op`` turns it.
    template <class Op> __device__ float load_edge(int lane, const Op &op) const {
        if constexpr (EDGES > 0)
            if (int j = edge(lane); j >= 0)
                return op.template turned<T>(float(row[j]), j);
        return -CUDART_INF_F;
    }

    __device__ void store_edge(T *out, int lane, float v) const {
        if constexpr (EDGES > 0)
            if (int j = edge(lane); j >= 0)
                out[j] = T(v);
    }
};

// Of a row's vectors, those from ``first`` to before ``last`` are block ``rank``'s of ``blocks``:
// equal shares in whole lines, counted from ``start``.
struct Portion {
    int start, first, last;

    template <class T, int EDGES>
    __device__ Portion(const Row<T, EDGES> &row, int rank, int blocks) {
        int lead = EDGES ? row.lead() : 0;
        int share = (lead + row.vectors + blocks * LINE - 1) / (blocks * LINE) * LINE;
        start = rank * share - lead;
        first = max(0, start);
        last = min(row.vectors, (rank + 1) * share - lead);
    }
};
