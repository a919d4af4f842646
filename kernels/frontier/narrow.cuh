// narrow: which key of a row is the last one kept, in passes over the row of a digit of 11 bits
// each: a pass adds up what tokens with the digits that are known count for (1, or a weight), for
// each value of the next digit, in a histogram of the row in global memory; the next pass sees in
// it which digit the last one has.
//   holds    three histograms a row: one is read, one is added to, one is made ready for the next
//            pass.  Nothing is left for another launch
//   source   as pick.cuh
#pragma once
#include "random.cuh"

// What a pass looks at, as an integer from the host (choice_plans.py); 0 for no pass.
struct Pass {
    int shift, bits;
    bool weighted, first; // by weights; of the passes that look for one key

    __device__ explicit Pass(int told)
        : shift(told & 0xff), bits(told >> 8 & 0xff), weighted(told >> 16 & 1),
          first(told >> 17 & 1) {}

    __device__ int digit(Key key) const {
        return static_cast<int>(key >> shift & ((1ull << bits) - 1));
    }
    // Whether they agree before the digit.
    __device__ bool alike(Key a, Key b) const { return a >> shift >> bits == b >> shift >> bits; }
};

struct Search {
    Key floor;  // who is below is out, by what was looked for before
    Key prefix; // the digits of the last one kept that are known
    Sum left;   // what those kept that begin so still have to count for
    Sum done;   // all that are not below the prefix are kept
};

// In global memory, of ``rows`` rows.
struct Memory {
    Sum *bins;        // 3 x rows x BINS
    Search *searches; // passes x rows
    unsigned *maxima; // rows x parts
    int rows, parts;

    __device__ Memory(Sum *memory, int rows, int parts, int passes)
        : bins(memory), searches(reinterpret_cast<Search *>(memory + 3ll * rows * BINS)),
          maxima(reinterpret_cast<unsigned *>(searches + static_cast<long long>(passes) * rows)),
          rows(rows), parts(parts) {}

    __device__ Sum *of_pass(int pass, int row) const {
        return bins + (pass % 3 * static_cast<long long>(rows) + row) * BINS;
    }
    __device__ Search *search(int pass, int row) const {
        return searches + static_cast<long long>(pass) * rows + row;
    }
    __device__ void make_ready(int pass, int row) const {
        for (int i = threadIdx.x; i < BINS; i += THREADS)
            of_pass(pass, row)[i] = 0;
    }

    // The row's largest value from those of its parts.
    template <class T> __device__ float max_of(int row) const {
        unsigned max = 0;
        for (int i = threadIdx.x % 32; i < parts; i += 32)
            max = ::max(max, maxima[static_cast<long long>(row) * parts + i]);
        return value_of<T>(max_over_warp(max));
    }
};

// What is known after pass ``number``, of all threads.
template <class T>
__device__ Search known_after(const Memory &memory, int row, int number, Pass pass,
                              const Weights &weights, double p, int column_bits) {
    Search s = *memory.search(number, row);
    if (s.done)
        return s;
    Picked found = pick(memory.of_pass(number, row), [&](Sum total) {
        return pass.first && pass.weighted ? share_of(total, p) : s.left;
    });
    s.prefix |= static_cast<Key>(found.bin) << pass.shift;
    s.left = found.wanted - found.above;
    s.done = s.left == found.inside || pass.shift == 0;
    if (pass.shift == 32 + UNUSED<T> && !s.done) {
        // All that begin so have one value: whether the last of them is wanted too.
        float v = value_of<T>(static_cast<unsigned>(s.prefix >> 32));
        s.done = s.left > found.inside - (pass.weighted ? weights.of(v) : 1);
        if (!s.done)
            s.prefix |= (~0ull << column_bits) & ~0u; // there inverted columns have ones
    }
    return s;
}

// The same, as the next pass starts with it.
__device__ inline Search begun(Search s, Pass next, int k) {
    if (next.first)
        return {max(s.floor, s.prefix), 0, static_cast<Sum>(k), 0};
    return s;
}
