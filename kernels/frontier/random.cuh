// random: numbers that depend on a seed, an offset, a row and a column, and on nothing else, and
// what is computed of them in single roundings of IEEE 754, of which the torch functions in
// kernels/sampling_torch.py give the same bits.
//   source   Philox4x32-10: Salmon, Moraes, Dror and Shaw 2011, Parallel Random Numbers: As Easy as
//            1, 2, 3; the largest logit beside Gumbel noise: Gumbel 1954, Yellott 1977
#pragma once
#include "pick.cuh"

__device__ inline void philox(unsigned (&c)[4], unsigned key0, unsigned key1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        auto a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
        unsigned next[] = {static_cast<unsigned>(b >> 32) ^ c[1] ^ key0, static_cast<unsigned>(b),
                           static_cast<unsigned>(a >> 32) ^ c[3] ^ key1, static_cast<unsigned>(a)};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            c[i] = next[i];
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
}

// The numbers of a row: one word a column, four neighbours' in one block.
struct Words {
    unsigned long long seed, offset;
    unsigned row;

    __device__ void block(int columns, unsigned (&w)[4]) const {
        w[0] = columns, w[1] = row, w[2] = offset, w[3] = offset >> 32;
        philox(w, static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
    }

    __device__ unsigned of(int column) const {
        unsigned w[4];
        block(column / 4, w);
        unsigned even = column & 2 ? w[2] : w[0], odd = column & 2 ? w[3] : w[1];
        return column & 1 ? odd : even;
    }

    // Of N columns from ``column`` on.
    template <int N> __device__ void of(int column, unsigned (&w)[N]) const {
        unsigned all[N + 4];
#pragma unroll
        for (int i = 0; i <= N; i += 4) {
            unsigned four[4] = {};
            if (i < N || column % 4)
                block((column + i) / 4, four);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                all[i + j] = four[j];
        }
        // Columns that do not start with a block: no register has a number that is not known.
#pragma unroll
        for (int step = 1; step <= 2; step *= 2)
#pragma unroll
            for (int i = 0; i + step < N + 4; ++i)
                all[i] = column & step ? all[i + step] : all[i];
#pragma unroll
        for (int i = 0; i < N; ++i)
            w[i] = all[i];
    }
};

constexpr float LN2 = 0.693147182f;

// ln(1 + t) + exponent ln 2, for 1 + t between sqrt(1/2) and sqrt(2): 2 artanh(t / (2 + t)).
__device__ inline float log_of(float t, int exponent) {
    float s = __fdiv_rn(t, __fadd_rn(2.0f, t)), q = __fmul_rn(s, s), sum = 1.0f / 9;
    sum = __fadd_rn(__fmul_rn(sum, q), 1.0f / 7);
    sum = __fadd_rn(__fmul_rn(sum, q), 1.0f / 5);
    sum = __fadd_rn(__fmul_rn(sum, q), 1.0f / 3);
    sum = __fadd_rn(__fmul_rn(sum, q), 1.0f);
    s = __fmul_rn(__fadd_rn(s, s), sum);
    return __fadd_rn(s, __fmul_rn(static_cast<float>(exponent), LN2));
}

// ln v of a normal number.
__device__ inline float log_of(float v) {
    constexpr int HALF_ROOT = 0x3f3504f3; // sqrt(1/2)
    int bits = __float_as_int(v), exponent = (bits - HALF_ROOT) >> 23;
    return log_of(__fadd_rn(__int_as_float(bits - exponent * (1 << 23)), -1.0f), exponent);
}

constexpr float UNIT = 1.0f / (1ull << 32);

// Gumbel noise -ln(-ln(1 - u)) of u = (word + 1/2) 2^-32: exact where u is small, and it decides.
__device__ inline float gumbel(unsigned word) {
    float u = __fmul_rn(__fadd_rn(static_cast<float>(word), 0.5f), UNIT);
    float rest = __fmul_rn(__fadd_rn(static_cast<float>(~word), 0.5f), UNIT);
    float wait = u < 0.25f ? log_of(-u, 0) : log_of(rest);
    return -log_of(-wait);
}

// What the noise is not above: -ln u, and a bit for roundings.
__device__ inline float above_gumbel(unsigned word) {
    return fmaf(log2_fast(static_cast<float>(word) + 0.5f), -LN2, 32 * LN2 + 1e-3f);
}
constexpr float ABOVE_ALL = 23.0f; // 33 ln 2 is below

// 2^t for t <= 0, or 2^-44 where it is less, and for NaN.
__device__ inline float power_of(float t) {
    // Of the series of 2^f for |f| <= 1/2, which goes on with less than 1.3e-7.
    constexpr float TERMS[] = {1.54035297e-4f,
                               1.33335579e-3f,
                               9.61812865e-3f,
                               5.55041097e-2f,
                               2.40226507e-1f,
                               6.93147182e-1f,
                               1.0f};
    constexpr float ROUND = 12582912.0f; // 3 2^22: what is added to it loses its fraction
    t = fmaxf(t, -44.0f);                // and a NaN
    float whole = __fadd_rn(t, ROUND), f = __fsub_rn(t, __fsub_rn(whole, ROUND)), sum = TERMS[0];
#pragma unroll
    for (int i = 1; i < 7; ++i)
        sum = __fadd_rn(__fmul_rn(sum, f), TERMS[i]);
    return __uint_as_float(__float_as_uint(sum) + (__float_as_uint(whole) << 23));
}

// The same as an integer, rounded down: of 0 it is 2^fixed, for fixed below 44.  By shifts: a
// conversion to 64 bits takes eight times as long.
__device__ inline Sum weight_of(float t, int fixed) {
    unsigned bits = __float_as_uint(power_of(t));
    Sum digits = (bits & 0x7fffff) | 0x800000;
    return digits << (fixed - 23) >> (127 - (bits >> 23));
}

// Weights of a row's tokens for top-p, relative to its largest value.
struct Weights {
    float max, factor;
    int fixed;

    __device__ Weights(float max, float inverse_temperature, int fixed)
        : max(max), factor(fminf(__fmul_rn(inverse_temperature, LOG2E), 3.40282347e38f)),
          fixed(fixed) {}

    __device__ bool finite() const { return fabsf(max) < CUDART_INF_F; }

    __device__ float exponent_of(float v) const { return __fmul_rn(__fsub_rn(v, max), factor); }

    // Where the largest is finite.
    __device__ Sum of_finite(float v) const { return weight_of(exponent_of(v), fixed); }
    __device__ Sum of(float v) const {
        // Beside +inf or NaN nothing else counts, and -inf is the largest of no token.
        if (!finite())
            return v == max || (v != v && max != max) ? 1ull << fixed : 0;
        return of_finite(v);
    }
};

// How much of ``total`` is wanted: the fraction p, rounded up.
__device__ inline Sum share_of(Sum total, double p) {
    Sum wanted = static_cast<Sum>(ceil(static_cast<double>(total) * p));
    return max(static_cast<Sum>(1), min(wanted, total));
}
