// vectors: a row as vectors of 16 bytes, whatever its first byte and its length.
//
// A row is the elements before its first 16-byte boundary, vectors, and the elements after its last
// boundary.  The elements outside (fewer than two vectors of them) go one to a thread, so that no
// vector is ever cut.  EDGES says that there may be such elements.
#pragma once
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

// A word of a vector as one or two floats, and back.
template <class T> struct Word;
template <> struct Word<float> {
    static __device__ void unpack(unsigned word, float *v) { v[0] = __uint_as_float(word); }
    static __device__ unsigned pack(const float *v) { return __float_as_uint(v[0]); }
    static __device__ float larger(float a, float b) { return fmaxf(a, b); }
    static __device__ float raw(unsigned word) { return __uint_as_float(word); }
    static __device__ float widest(float a) { return a; }
};
template <> struct Word<__half> {
    static __device__ void unpack(unsigned word, float *v) {
        float2 two = __half22float2(bits<__half2>(word));
        v[0] = two.x, v[1] = two.y;
    }
    static __device__ unsigned pack(const float *v) {
        return bits<unsigned>(__floats2half2_rn(v[0], v[1]));
    }
    static __device__ __half2 larger(__half2 a, __half2 b) { return __hmax2(a, b); }
    static __device__ __half2 raw(unsigned word) { return bits<__half2>(word); }
    static __device__ float widest(__half2 a) { return fmaxf(__low2float(a), __high2float(a)); }
};
template <> struct Word<__nv_bfloat16> {
    static __device__ void unpack(unsigned word, float *v) {
        v[0] = __uint_as_float(word << 16), v[1] = __uint_as_float(word & 0xffff0000);
    }
    static __device__ unsigned pack(const float *v) {
        return bits<unsigned>(__floats2bfloat162_rn(v[0], v[1]));
    }
    static __device__ __nv_bfloat162 larger(__nv_bfloat162 a, __nv_bfloat162 b) {
        return __hmax2(a, b);
    }
    static __device__ __nv_bfloat162 raw(unsigned word) { return bits<__nv_bfloat162>(word); }
    static __device__ float widest(__nv_bfloat162 a) {
        return fmaxf(__low2float(a), __high2float(a));
    }
};

template <class T> __device__ void unpack(uint4 raw, float (&v)[WIDTH<T>]) {
    constexpr int EACH = WIDTH<T> / 4;
    Word<T>::unpack(raw.x, v);
    Word<T>::unpack(raw.y, v + EACH);
    Word<T>::unpack(raw.z, v + 2 * EACH);
    Word<T>::unpack(raw.w, v + 3 * EACH);
}

template <class T> __device__ uint4 pack(const float (&v)[WIDTH<T>]) {
    constexpr int EACH = WIDTH<T> / 4;
    return {Word<T>::pack(v), Word<T>::pack(v + EACH), Word<T>::pack(v + 2 * EACH),
            Word<T>::pack(v + 3 * EACH)};
}

// The largest element of N vectors, NaN left out: two at a time where elements have 16 bits.
template <class T, int N> __device__ float largest(const uint4 (&raw)[N]) {
    using W = Word<T>;
    auto a = W::raw(NOTHING<T>), b = a;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        a = W::larger(a, W::larger(W::raw(raw[i].x), W::raw(raw[i].y)));
        b = W::larger(b, W::larger(W::raw(raw[i].z), W::raw(raw[i].w)));
    }
    return W::widest(W::larger(a, b));
}

constexpr int LINE = 8; // vectors of a line of memory

// Where a row lies: ``head`` elements, ``vectors`` vectors, ``tail`` elements.
template <class T, bool EDGES> struct Row {
    const T *row;
    int cols, head, vectors, tail;

    __device__ Row(const T *row, int cols) : row(row), cols(cols), head(0), tail(0) {
        if constexpr (EDGES) {
            auto past = reinterpret_cast<unsigned long long>(row) % 16 / sizeof(T);
            head = min(cols, int((WIDTH<T> - past) % WIDTH<T>));
            tail = (cols - head) % WIDTH<T>;
        }
        vectors = (cols - head) / WIDTH<T>;
    }

    __device__ const uint4 *body() const { return reinterpret_cast<const uint4 *>(row + head); }

    // Vectors from the start of a line to the body: who counts from there asks for whole lines.
    __device__ int lead() const {
        return int(reinterpret_cast<unsigned long long>(row + head) / 16 % LINE);
    }

    // Vector i of the body, -inf outside.
    __device__ uint4 load(int i) const {
        return unsigned(i) < unsigned(vectors) ? body()[i] : nothing<T>();
    }

    // The column of the edges' element of thread ``lane`` of the row's; -1 where it has none.
    __device__ int edge(int lane) const {
        if (lane < head)
            return lane;
        return lane < head + tail ? cols - tail + (lane - head) : -1;
    }

    __device__ float load_edge(int lane) const {
        if constexpr (EDGES)
            if (int j = edge(lane); j >= 0)
                return float(row[j]);
        return -CUDART_INF_F;
    }

    // Whether a row at ``out`` lies between its boundaries as this one does.
    __device__ bool alike(const T *out) const {
        return !EDGES || reinterpret_cast<unsigned long long>(out + head) % 16 == 0;
    }

    // Vector i of the row's results; ``vectorised`` says that ``out`` lies alike.
    __device__ void store(T *out, int i, const float (&v)[WIDTH<T>], bool vectorised) const {
        if (unsigned(i) >= unsigned(vectors))
            return;
        T *to = out + head + i * WIDTH<T>;
        if (!EDGES || vectorised) {
            *reinterpret_cast<uint4 *>(to) = pack<T>(v);
            return;
        }
#pragma unroll
        for (int e = 0; e < WIDTH<T>; ++e)
            to[e] = T(v[e]);
    }

    __device__ void store_edge(T *out, int lane, float v) const {
        if constexpr (EDGES)
            if (int j = edge(lane); j >= 0)
                out[j] = T(v);
    }
};
