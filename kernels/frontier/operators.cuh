// operators: what a softmax of the frontier's kernels is asked for beside itself.  A kernel takes
// Factors, or Factors and a mask, after its other arguments.
//   moves    a causal row is read up to its last element that is seen; the other masks' elements
//   are
//            read beside the row's, whose rows they may share
//   source   the exercises of S3 (temperature, log-softmax, a factor); masks as PyTorch's attention
//            takes them
#pragma once
#include "load.cuh"

// after * softmax(times * x), or with LOGARITHM after * log_softmax(times * x).
template <bool LOGARITHM> struct Factors : Softmax {
    static constexpr bool LOG = LOGARITHM;
    float before, behind; // before > 0

    __device__ float times() const { return before; }
    __device__ float after(float v) const { return v * behind; }
};

// ``raw`` with -inf for its elements that have no bit in ``seen``.
template <class T> __device__ uint4 hidden(uint4 raw, unsigned seen) {
    constexpr int EACH = WIDTH<T> / 4;
    unsigned w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned bits = EACH == 1 ? ~0u : 0xffff, keep = 0;
#pragma unroll
        for (int j = 0; j < EACH; ++j)
            keep |= seen >> (i * EACH + j) & 1 ? bits << 16 * j : 0;
        w[i] = w[i] & keep | NOTHING<T> & ~keep;
    }
    return {w[0], w[1], w[2], w[3]};
}

// Only the first elements of a row are seen: of row i of every ``count``, i + ``more`` of them.
struct Causal {
    static constexpr bool SCALES = false;
    int count, more;

    struct Seen {
        int end;

        __device__ int columns() const { return max(0, end); }
        __device__ float turned(float v, int column, float) const {
            return column < end ? v : -CUDART_INF_F;
        }
        template <class T> __device__ uint4 turned(uint4 raw, int column, float) const {
            return hidden<T>(raw,
                             end - column >= WIDTH<T> ? ~0u : (1u << max(0, end - column)) - 1);
        }
    };

    __device__ Seen of_row(long long row) const {
        return {int(unsigned(row) % unsigned(count)) + more};
    }
};

// Where the rows of a matrix start that is broadcast over others: rows are numbered in the order of
// three dimensions, the last two of n1 and n2, s0, s1, s2 elements apart, their elements step
// apart.
struct Places {
    long long n1, n2, s0, s1, s2, step;

    __device__ long long of(long long row) const {
        unsigned r = unsigned(row), above = r / unsigned(n2);
        return above / unsigned(n1) * s0 + above % unsigned(n1) * s1 + r % unsigned(n2) * s2;
    }
};

// Elements are seen where the mask is not 0.
struct Chosen {
    static constexpr bool SCALES = false;
    const unsigned char *mask;
    Places places;

    struct Seen {
        const unsigned char *row;
        long long step;

        __device__ int columns() const { return ALL; }
        __device__ float turned(float v, int column, float) const {
            return row[column * step] ? v : -CUDART_INF_F;
        }
        template <class T> __device__ uint4 turned(uint4 raw, int column, float) const {
            unsigned seen = 0;
            const unsigned char *at = row + column * step;
            if (step == 1 && reinterpret_cast<unsigned long long>(at) % WIDTH<T> == 0) {
#pragma unroll
                for (int i = 0; i < WIDTH<T> / 4; ++i) {
                    unsigned four = reinterpret_cast<const unsigned *>(at)[i];
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        seen |= unsigned((four & 0xff << 8 * j) != 0) << (4 * i + j);
                }
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH<T>; ++j)
                    seen |= unsigned(at[j * step] != 0) << j;
            }
            return hidden<T>(raw, seen);
        }
    };

    __device__ Seen of_row(long long row) const { return {mask + places.of(row), places.step}; }
};

// Elements, times the factor, have the mask's added, in the row's dtype.
template <class T> struct Added {
    static constexpr bool SCALES = true;
    const T *mask;
    Places places;

    struct Seen {
        const T *row;
        long long step;

        __device__ int columns() const { return ALL; }
        __device__ float turned(float v, int column, float times) const {
            return float(T(fmaf(v, times, float(row[column * step]))));
        }
        template <class> __device__ uint4 turned(uint4 raw, int column, float times) const {
            float v[WIDTH<T>], of_mask[WIDTH<T>];
            unpack<T>(raw, v);
            const T *at = row + column * step;
            if (step == 1 && past_boundary(at) == 0) {
                unpack<T>(*reinterpret_cast<const uint4 *>(at), of_mask);
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH<T>; ++j)
                    of_mask[j] = float(at[j * step]);
            }
#pragma unroll
            for (int j = 0; j < WIDTH<T>; ++j)
                v[j] = fmaf(v[j], times, of_mask[j]);
            return pack<T>(v);
        }
    };

    __device__ Seen of_row(long long row) const { return {mask + places.of(row), places.step}; }
};

template <class Factors, class Mask> struct Masked : Factors {
    static constexpr bool TURNS = true;
    Mask mask;
    typename Mask::Seen seen;

    __device__ Masked(Factors factors, Mask mask) : Factors(factors), mask(mask) {}

    __device__ void go_to(long long row) { seen = mask.of_row(row); }
    // A mask that scales does so once; what follows shall not.
    __device__ float times() const { return Mask::SCALES ? 1.0f : Factors::times(); }

    // Vectors of a row, after ``head`` elements, of which some are seen.
    template <class T> __device__ int vectors_seen(int head) const {
        int columns = seen.columns();
        return columns == ALL ? ALL : (max(0, columns - head) + WIDTH<T> - 1) / WIDTH<T>;
    }
    template <class T> __device__ float turned(float v, int column) const {
        return seen.turned(v, column, Factors::times());
    }
    template <class T> __device__ uint4 turned(uint4 raw, int column) const {
        return seen.template turned<T>(raw, column, Factors::times());
    }
};

template <bool LOG> __device__ Factors<LOG> operator_of(Factors<LOG> factors) { return factors; }
template <bool LOG>
__device__ Masked<Factors<LOG>, Causal> operator_of(Factors<LOG> factors, Causal mask) {
    return {factors, mask};
}
template <bool LOG>
__device__ Masked<Factors<LOG>, Chosen> operator_of(Factors<LOG> factors, const unsigned char *mask,
                                                    Places places) {
    return {factors, {mask, places}};
}
template <bool LOG, class T>
__device__ Masked<Factors<LOG>, Added<T>> operator_of(Factors<LOG> factors, const T *mask,
                                                      Places places) {
    return {factors, {mask, places}};
}
