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

// Of a mask, ``Word`` is what it has for a vector, ``word`` fetches it for the vector at a column,
// in one load where its elements lie ``side_by_side``, and ``turned`` applies it.

// Only the first elements of a row are seen: of row i of every ``count``, i + ``more`` of them.
struct Causal {
    static constexpr bool SCALES = false;
    int count, more;

    struct Seen {
        int end;

        template <class T> using Word = unsigned;

        __device__ int columns() const { return max(0, end); }
        template <class T> __device__ bool side_by_side(int) const { return true; }
        template <class T, bool> __device__ unsigned word(int column) const {
            return end - column >= WIDTH<T> ? ~0u : (1u << max(0, end - column)) - 1;
        }
        template <class T> __device__ uint4 turned(uint4 raw, unsigned seen, float) const {
            return hidden<T>(raw, seen);
        }
        __device__ float turned(float v, int column, float) const {
            return column < end ? v : -CUDART_INF_F;
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

        template <class T> struct Word {
            unsigned bytes[WIDTH<T> / 4];
        };

        __device__ int columns() const { return ALL; }
        template <class T> __device__ bool side_by_side(int column) const {
            return step == 1 && reinterpret_cast<unsigned long long>(row + column) % WIDTH<T> == 0;
        }
        template <class T, bool SIDE_BY_SIDE> __device__ Word<T> word(int column) const {
            const unsigned char *at = row + column * step;
            Word<T> all = {};
            if constexpr (SIDE_BY_SIDE && sizeof(T) == 2) {
                uint2 eight = *reinterpret_cast<const uint2 *>(at);
                all.bytes[0] = eight.x, all.bytes[WIDTH<T> / 4 - 1] = eight.y;
            } else if constexpr (SIDE_BY_SIDE) {
                all.bytes[0] = *reinterpret_cast<const unsigned *>(at);
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH<T>; ++j)
                    all.bytes[j / 4] |= unsigned(at[j * step]) << 8 * (j % 4);
            }
            return all;
        }
        template <class T> __device__ uint4 turned(uint4 raw, Word<T> all, float) const {
            unsigned seen = 0;
#pragma unroll
            for (int j = 0; j < WIDTH<T>; ++j)
                seen |= unsigned((all.bytes[j / 4] & 0xff << 8 * (j % 4)) != 0) << j;
            return hidden<T>(raw, seen);
        }
        __device__ float turned(float v, int column, float) const {
            return row[column * step] ? v : -CUDART_INF_F;
        }
    };

    __device__ Seen of_row(long long row) const { return {mask + places.of(row), places.step}; }
};

// Elements, times the factor, have the mask's added, in the row's dtype.
template <class M> struct Added {
    static constexpr bool SCALES = true;
    const M *mask;
    Places places;

    struct Seen {
        const M *row;
        long long step;

        template <class T> using Word = uint4;

        __device__ int columns() const { return ALL; }
        template <class T> __device__ bool side_by_side(int column) const {
            return step == 1 && past_boundary(row + column) == 0;
        }
        template <class T, bool SIDE_BY_SIDE> __device__ uint4 word(int column) const {
            const M *at = row + column * step;
            if constexpr (SIDE_BY_SIDE)
                return *reinterpret_cast<const uint4 *>(at);
            float v[WIDTH<T>];
#pragma unroll
            for (int j = 0; j < WIDTH<T>; ++j)
                v[j] = float(at[j * step]);
            return pack<T>(v);
        }
        template <class T> __device__ uint4 turned(uint4 raw, uint4 added, float times) const {
            float v[WIDTH<T>], more[WIDTH<T>];
            unpack<T>(raw, v);
            unpack<T>(added, more);
#pragma unroll
            for (int j = 0; j < WIDTH<T>; ++j)
                v[j] = fmaf(v[j], times, more[j]);
            return pack<T>(v);
        }
        __device__ float turned(float v, int column, float times) const {
            return float(M(fmaf(v, times, float(row[column * step]))));
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
    template <class T, class Word> __device__ uint4 turned(uint4 raw, Word word) const {
        return seen.template turned<T>(raw, word, Factors::times());
    }
};

// The vectors of a row as a mask leaves them (load.cuh).  All of the mask's words are asked for
// before the row's vectors: two at a time they took a tenth longer where rows are wide (H200).  But
// where rows have edges, large ones go two at a time: shapes with registers for more were not
// measured, and where edges lie apart lanes have their neighbours' vectors on the way too.
template <int STEP, class Factors, class Mask, class T, int EDGES, int N>
__device__ void look(const Masked<Factors, Mask> &op, const Row<T, EDGES> &row, int start,
                     uint4 (&raw)[N], int last = ALL) {
    using Word = typename Mask::Seen::template Word<T>;
    constexpr int TOGETHER = EDGES == 0 || sizeof(Word) <= 8 || N < 2 ? N : 2;
    int end = min(min(last, row.vectors), op.template vectors_seen<T>(row.head));
    bool side_by_side = op.seen.template side_by_side<T>(row.head);
    Word words[TOGETHER];
    auto each = [&](int first, auto visit) {
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i)
            if (first + i < N)
                if (int k = start + STEP * (first + i); unsigned(k) < unsigned(end))
                    visit(i, row.head + k * WIDTH<T>);
    };
    auto fetch = [&](int first) {
        if (side_by_side)
            each(first,
                 [&](int i, int column) { words[i] = op.seen.template word<T, true>(column); });
        else
            each(first,
                 [&](int i, int column) { words[i] = op.seen.template word<T, false>(column); });
    };
    if constexpr (TOGETHER == N)
        fetch(0);
    load<STEP>(row, start, raw, end);
#pragma unroll
    for (int first = 0; first < N; first += TOGETHER) {
        if constexpr (TOGETHER < N)
            fetch(first);
        each(first,
             [&](int i, int) { raw[first + i] = op.template turned<T>(raw[first + i], words[i]); });
    }
}

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
