// Loops over the bits of values: columns of a table as rows, and hashes of rows. Nothing rounds.
#include "products.hpp"

#include <algorithm>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

namespace lwcs {
namespace {

// Rows, and columns, of a square. Arrow's columns often begin at multiples of 4096 bytes; more of
// them at once than a set of the cache has lines would push each other out.
constexpr int64_t SIDE = 8;
// Rows whose squares are copied one column of squares after the other.
constexpr int64_t STRETCH = 1024;

template <class T>
void copy_square(const T* const* columns, int64_t i, T* to, int64_t stride) {
    typedef T V __attribute__((vector_size(SIDE * sizeof(T))));
    V rows[SIDE];
    for (int64_t j = 0; j < SIDE; ++j) std::memcpy(&rows[j], columns[j] + i, sizeof(V));
    transpose<T>(rows);
    for (int64_t r = 0; r < SIDE; ++r) std::memcpy(to + r * stride, &rows[r], sizeof(V));
}

template <class T>
void as_rows(const T* const* columns, int64_t n, int64_t d, T* out) {
    if (n < SIDE || d < SIDE) {
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < d; ++j) out[i * d + j] = columns[j][i];
        return;
    }
    for (int64_t start = 0; start < n; start += STRETCH) {
        const int64_t stop = std::min(start + STRETCH, n);
        for (int64_t each = 0; each < d; each += SIDE) {
            // The last square lies over the one before it, where there is no room for another.
            const int64_t j = std::min(each, d - SIDE);
            for (int64_t row = start; row < stop; row += SIDE) {
                const int64_t i = std::min(row, n - SIDE);
                copy_square(columns + j, i, out + i * d + j, d);
            }
        }
    }
}

template <class W>
void hash_sums(const W* words, const uint64_t* factors, const uint64_t* more, uint64_t place, int64_t n, int64_t d,
               uint64_t* sums) {
    uint64_t content = 0, order = 0;
    for (int64_t i = 0; i < n; ++i) {
        uint64_t mixed = more ? more[i] : 0;
        for (int64_t j = 0; j < d; ++j) mixed += uint64_t(words[i * d + j]) * factors[j];
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        mixed ^= mixed >> 31;
        content += mixed;
        order += mixed * (place + 2 * uint64_t(i));
    }
    sums[0] = content;
    sums[1] = order;
}

}  // namespace
}  // namespace lwcs

using namespace lwcs;

LWCS_API int32_t lwcs_as_rows(int32_t wide, const void* columns, int64_t n, int64_t d, void* out) {
    return guarded([&] {
        if (wide)
            as_rows(static_cast<const uint64_t* const*>(columns), n, d, static_cast<uint64_t*>(out));
        else
            as_rows(static_cast<const uint32_t* const*>(columns), n, d, static_cast<uint32_t*>(out));
    });
}

// Two sums over rows of words of 1, 2 or 4 bytes: without and with regard to their order.
LWCS_API int32_t lwcs_hash_sums(int32_t bytes, const void* words, const uint64_t* factors, const uint64_t* more,
                                uint64_t place, int64_t n, int64_t d, uint64_t* sums) {
    return guarded([&] {
        if (bytes == 1)
            hash_sums(static_cast<const uint8_t*>(words), factors, more, place, n, d, sums);
        else if (bytes == 2)
            hash_sums(static_cast<const uint16_t*>(words), factors, more, place, n, d, sums);
        else
            hash_sums(static_cast<const uint32_t*>(words), factors, more, place, n, d, sums);
    });
}

// Changes with the functions: `native/library.py` calls no library of another interface.
LWCS_API int32_t lwcs_interface() { return 2; }

// The largest instruction set that the processor and the system have: 0, 2 (AVX2 with FMA and
// F16C), or 3 (AVX-512).
LWCS_API int32_t lwcs_instruction_set() {
#if defined(__x86_64__) || defined(_M_X64)
    __builtin_cpu_init();
    unsigned a, b, c = 0, d;
    const bool half = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && half)) return 0;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
    return wide ? 3 : 2;
#else
    return 0;
#endif
}
