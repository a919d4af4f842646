// columns: softmax along a dimension that is not the last.  A tensor is seen as (outer, cols,
// inner): elements of ``inner`` lie side by side, and each of them is a place, with a maximum and a
// sum of its own over the ``cols`` rows.  A thread takes a unit of places, BYTES side by side: as
// many, up to a vector of 16, as every row's start, as all of a row, is a multiple of.  So no unit
// is ever cut, and nothing outside the tensor is read or written.
//   source   own
#pragma once
#include "reduce.cuh"

// An assignment to memory is compiled to four stores here, of a word each.
__device__ inline void store_vector(void *at, uint4 v) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// A vector, and into the L2 all 256 bytes that it lies in: the strips beside a narrow one are other
// blocks', which ask for them next, and memory gives pieces of 128 bytes more slowly.
__device__ inline uint4 load_around(const void *at) {
    uint4 v;
    asm volatile("ld.global.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}

// BYTES side by side, in words.  Of a single element of 16 bits the word's other half is -inf.
template <class T, int BYTES> struct alignas(BYTES < 4 ? 4 : BYTES) Unit {
    static constexpr int WORDS = BYTES < 4 ? 1 : BYTES / 4, PLACES = BYTES / int(sizeof(T));
    static constexpr int OF_WORD = 4 / int(sizeof(T));
    unsigned w[WORDS];

    static __device__ Unit nothing() {
        Unit made;
#pragma unroll
        for (unsigned &word : made.w)
            word = NOTHING<T>;
        return made;
    }

    // AROUND: for neighbours too (vectors alone).
    template <bool AROUND = false> static __device__ Unit load(const T *at) {
        Unit made;
        if constexpr (BYTES == 16) {
            uint4 raw = AROUND ? load_around(at) : *reinterpret_cast<const uint4 *>(at);
            made.w[0] = raw.x, made.w[1] = raw.y, made.w[2] = raw.z, made.w[3] = raw.w;
        } else if constexpr (BYTES == 8) {
            auto raw = *reinterpret_cast<const unsigned long long *>(at);
            made.w[0] = unsigned(raw), made.w[1] = unsigned(raw >> 32);
        } else if constexpr (BYTES == 4) {
            made.w[0] = *reinterpret_cast<const unsigned *>(at);
        } else {
            made.w[0] = *reinterpret_cast<const unsigned short *>(at) | (NOTHING<T> & 0xffff0000);
        }
        return made;
    }

    __device__ void store(T *at) const {
        if constexpr (BYTES == 16) {
            store_vector(at, {w[0], w[1], w[2], w[3]});
        } else if constexpr (BYTES == 8) {
            *reinterpret_cast<unsigned long long *>(at) =
                static_cast<unsigned long long>(w[1]) << 32 | w[0];
        } else if constexpr (BYTES == 4) {
            *reinterpret_cast<unsigned *>(at) = w[0];
        } else {
            *reinterpret_cast<unsigned short *>(at) = static_cast<unsigned short>(w[0]);
        }
    }

    __device__ void unpack(float (&v)[PLACES]) const {
        float all[WORDS * OF_WORD];
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            Word<T>::unpack(w[i], all + OF_WORD * i);
#pragma unroll
        for (int e = 0; e < PLACES; ++e)
            v[e] = all[e];
    }

    // By other instructions, so that the compiler keeps the words and not what ``unpack`` made.
    __device__ void unpack_again(float (&v)[PLACES]) const {
        if constexpr (sizeof(T) == 4) {
            unpack(v);
        } else {
            float all[WORDS * OF_WORD];
#pragma unroll
            for (int i = 0; i < WORDS; ++i)
                Word<T>::unpack_again(w[i], all + OF_WORD * i);
#pragma unroll
            for (int e = 0; e < PLACES; ++e)
                v[e] = all[e];
        }
    }

    __device__ void pack(const float (&v)[PLACES]) {
        float all[WORDS * OF_WORD] = {};
#pragma unroll
        for (int e = 0; e < PLACES; ++e)
            all[e] = v[e];
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            w[i] = Word<T>::pack(all + OF_WORD * i);
    }

    // The larger at every place, two at once where elements have 16 bits; NaN if one is.
    __device__ void take_larger(const Unit &other) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            w[i] = bits<unsigned>(larger(Word<T>::raw(w[i]), Word<T>::raw(other.w[i])));
    }

    // Of 16 bits, two at once.  Exact from half a base to twice it.
    __device__ void subtract(const Unit &bases) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            w[i] = bits<unsigned>(__hsub2(Word<T>::raw(w[i]), Word<T>::raw(bases.w[i])));
    }
};

// Where a thread's places start in x and in the results, if it has any.  Units are numbered over
// all outer dimensions, ``pitch`` to each, of which the first ``units`` are there.
struct Spot {
    bool there;
    unsigned place;        // of units
    unsigned long long of; // outer dimensions

    __device__ Spot(unsigned long long number, long long numbers, int pitch, int units)
        : place(unsigned(number)), of(0) {
        if (numbers > pitch) { // a division of 64 bits takes as long as many elements
            if (numbers <= 0xffffffffll) {
                of = unsigned(number) / unsigned(pitch);
                place = unsigned(number) % unsigned(pitch);
            } else {
                of = number / unsigned(pitch);
                place = unsigned(number % unsigned(pitch));
            }
        }
        there = number < static_cast<unsigned long long>(numbers) && place < unsigned(units);
    }

    // In elements, of units of so many.
    __device__ long long in(long long outer_stride, int each) const {
        return static_cast<long long>(of) * outer_stride + static_cast<long long>(place) * each;
    }
};

// The maximum at every place over lanes that are LANES apart in a warp, in all of them.
template <int LANES, class Mine> __device__ void larger_over_warp(Mine &mine) {
#pragma unroll
    for (int step = LANES; step < 32; step *= 2) {
        Mine other;
#pragma unroll
        for (int i = 0; i < Mine::WORDS; ++i)
            other.w[i] = __shfl_xor_sync(ALL_LANES, mine.w[i], step);
        mine.take_larger(other);
    }
}

// Results at a place, of elements.
template <class T, bool LOG> struct AtPlace {
    float base, scale;

    __device__ float operator()(float x) const {
        if constexpr (LOG)
            return (x - base) + scale;
        if constexpr (sizeof(T) == 2) // the division is a subtraction in the exponent
            return exp2_fast(fmaf(x - base, LOG2E, scale));
        return exp2_fast((x - base) * LOG2E) * scale;
    }
};

// What AtPlace has to know of a place's maximum and sum.
template <class T, bool LOG> __device__ Partial told(Partial place) {
    if constexpr (LOG)
        place.sum = sizeof(T) == 2 ? log2_fast(place.sum) / -LOG2E : -logf(place.sum);
    else
        place.sum = sizeof(T) == 2 ? -log2_fast(place.sum) : 1.0f / place.sum;
    place.max = base_of(place.max);
    return place;
}

// One pair of two.
__device__ inline Partial merged(Partial a, Partial b) {
    float max = larger(a.max, b.max), base = base_of(max);
    return {max, moved(Softmax{}, a.sum, a.max, base) + moved(Softmax{}, b.sum, b.max, base)};
}
