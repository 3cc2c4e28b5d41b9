// Squared distances of rows of bytes to one point, in whole numbers: as fast as memory is read.
//
// With c the nearest whole number to a pivot p, and r = p − c, Σ(x − p)² is Σ(x − c)² − 2·Σr(x − c) + n·r²:
// the first sum is exact, the second needs one product per column of a cell, and as |r| ≤ 1/2 nothing cancels.
#pragma once

#include "lanes.hpp"
#include "rows.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace lwcs {

typedef Register<int16_t>::type Shorts;
typedef Register<uint32_t>::type Sums;

// Sums of the squares of two neighbors, each below 2⁸.
inline Sums squares_of(Shorts x) {
#if defined(__AVX512BW__)
    return Sums(_mm512_madd_epi16(__m512i(x), __m512i(x)));
#elif defined(__AVX2__)
    return Sums(_mm256_madd_epi16(__m256i(x), __m256i(x)));
#elif defined(__SSE2__)
    return Sums(_mm_madd_epi16(__m128i(x), __m128i(x)));
#else
    typedef Register<uint16_t>::type Squares;
    const Squares square = Squares(x) * Squares(x);
    return (Sums(square) & 0xffffu) + (Sums(square) >> 16);
#endif
}

// Rows of fewer columns than the lanes of the widest registers are scanned as floats, as are rows of
// so many that sums of a cell of 32 rows might not fit into 32 bits.
inline bool scanned_as_bytes(int64_t d, int64_t cell, const double* scale) {
    return !scale && d >= 32 && d <= 8192 && cell <= 32;
}

// Σ(x − p)² of every cell and Σ(x − p) of every column, of rows of one block; returns the sum of the cells.
template <class P>
double scan_bytes(const P* rows, const double* pivot, int64_t n, int64_t d, int64_t cell, double* shift,
                  double* cells) {
    typedef int16_t Eight __attribute__((vector_size(16)));
    typedef int32_t Words __attribute__((vector_size(32)));
    typedef P Bytes __attribute__((vector_size(LWCS_VECTOR_BYTES / 2)));
    constexpr int64_t lanes = Register<int16_t>::lanes;
    const int64_t padded = d + (-d & 7);
    Array<int16_t> center(d), kept(d, true), sums(padded, true);
    Array<double> rest(padded, true);
    Array<int32_t> totals(padded, true);
    double floor = 0.0;
    for (int64_t j = 0; j < d; ++j) {
        const double least = std::is_same_v<P, int8_t> ? -128.0 : 0.0;
        center[j] = int16_t(std::min(std::max(std::nearbyint(pivot[j]), least), least + 255.0));
        rest[j] = pivot[j] - double(center[j]);
        floor += rest[j] * rest[j];
    }
    // The last columns overlap with those before them, which count once.
    for (int64_t j = d / lanes * lanes; j < d; ++j) kept[j] = -1;
    double cost = 0.0;
    for (int64_t first = 0; first < n; first += cell) {
        const int64_t many = std::min(cell, n - first);
        const P* at = rows + first * d;
        Sums squares{};
        const auto offset = [&](int64_t i, int64_t j) {
            return __builtin_convertvector(load<Bytes>(at + i * d + j), Shorts) - load<Shorts>(center.get() + j);
        };
        int64_t j = 0;
        for (; j + lanes <= d; j += lanes) {
            Shorts sum{};
            for (int64_t i = 0; i < many; ++i) {
                const Shorts x = offset(i, j);
                sum += x;
                squares += squares_of(x);
            }
            store(sums.get() + j, sum);
        }
        if (j < d) {
            j = d - lanes;
            const Shorts mask = load<Shorts>(kept.get() + j);
            Shorts sum{};
            for (int64_t i = 0; i < many; ++i) {
                const Shorts x = offset(i, j) & mask;
                sum += x;
                squares += squares_of(x);
            }
            store(sums.get() + j, sum | (load<Shorts>(sums.get() + j) & ~mask));
        }
        uint32_t parts[LWCS_VECTOR_BYTES / 4];
        store(parts, squares);
        uint64_t square = 0;
        for (const uint32_t part : parts) square += part;
        Lanes crossed = Lanes::zero();
        for (int64_t each = 0; each < padded; each += 8) {
            const Words sum = __builtin_convertvector(load<Eight>(sums.get() + each), Words);
            store(totals.get() + each, load<Words>(totals.get() + each) + sum);
            int32_t values[8];
            store(values, sum);
            crossed += Lanes::from(rest.get() + each) * Lanes::from(values);
        }
        const double mass = double(square) - 2.0 * crossed.sum() + double(many) * floor;
        cells[first / cell] = std::max(mass, 0.0);
        cost += cells[first / cell];
    }
    for (int64_t j = 0; j < d; ++j) shift[j] += double(totals[j]) - double(n) * rest[j];
    return cost;
}

}  // namespace lwcs
