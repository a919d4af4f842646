// columns_strip: a block's share of the rows of a strip, of which it has some at a time.
#pragma once
#include "columns.cuh"

// Units of a thread on their way at once: 16 words.
template <class Mine> constexpr int TOGETHER_OF = 16 / Mine::WORDS;

// Rows from ``first`` to before ``last``, in trips of ``at_once``.
struct Rows {
    int first, last, trips;

    __device__ Rows(int split, int share, int cols, int at_once)
        : first(split * share),
          last(min(static_cast<long long>(cols), static_cast<long long>(split) * share + share)),
          trips((last - first - 1) / at_once + 1) {}
};

// Rows row, row + GROUPS, ... before ``last``; -inf elsewhere.
template <int GROUPS, class T, class Mine, int N>
__device__ void load_rows(const T *from, long long step, long long row, int last, Mine (&some)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i)
        some[i] = row + GROUPS * i < last ? Mine::load(from + (row + GROUPS * i) * step)
                                          : Mine::nothing();
}
