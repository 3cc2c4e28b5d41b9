// The types of numbers that rows may have, and their conversion to the type they are computed in.
//
// Half precision and small integers are converted a few thousand values at a time, in the first
// level of the cache; float and double are read where they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace lwcs {

struct Half {
    uint16_t bits;
};
struct BFloat {
    uint16_t bits;
};

inline float to_float(Half value) {
#if defined(__F16C__)
    return _cvtsh_ss(value.bits);
#else
    const uint32_t sign = uint32_t(value.bits & 0x8000u) << 16;
    const uint32_t rest = value.bits & 0x7fffu;
    uint32_t bits;
    if (rest >= 0x7c00u) {
        bits = sign | 0x7f800000u | ((rest & 0x3ffu) << 13);
    } else {
        // Multiplication by 2^112 moves the exponent, for numbers below the normal ones, too.
        bits = rest << 13;
        float scaled;
        std::memcpy(&scaled, &bits, 4);
        scaled *= 0x1p112f;
        std::memcpy(&bits, &scaled, 4);
        bits |= sign;
    }
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
#endif
}
inline float to_float(BFloat value) {
    const uint32_t bits = uint32_t(value.bits) << 16;
    float out;
    std::memcpy(&out, &bits, 4);
    return out;
}
inline float to_float(int8_t value) { return float(value); }
inline float to_float(uint8_t value) { return float(value); }

// What rows of a type are computed in.
template <class P>
using Wide = std::conditional_t<std::is_same_v<P, double>, double, float>;

// `n` values as floats or doubles; `memory` has room for them where they are converted.
inline const float* widen(const float* from, int64_t, float*) { return from; }
inline const double* widen(const double* from, int64_t, double*) { return from; }
template <class P>
inline const float* widen(const P* from, int64_t n, float* memory) {
    for (int64_t i = 0; i < n; ++i) memory[i] = to_float(from[i]);
    return memory;
}
#if defined(__F16C__)
inline const float* widen(const Half* from, int64_t n, float* memory) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
        _mm512_storeu_ps(memory + i, _mm512_cvtph_ps(bits));
    }
#endif
    for (; i + 8 <= n; i += 8) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm256_storeu_ps(memory + i, _mm256_cvtph_ps(bits));
    }
    for (; i < n; ++i) memory[i] = to_float(from[i]);
    return memory;
}
#endif

// Memory that begins on a cache line.
template <class T>
class Array {
public:
    Array() = default;
    explicit Array(int64_t n, bool zeros = false)
        : values_(static_cast<T*>(::operator new(sizeof(T) * size_t(n > 0 ? n : 1), std::align_val_t(64)))) {
        if (zeros) std::memset(static_cast<void*>(values_.get()), 0, sizeof(T) * size_t(n));
    }
    T* get() const { return values_.get(); }
    T& operator[](int64_t i) const { return values_.get()[i]; }

private:
    struct Free {
        void operator()(T* values) const { ::operator delete(values, std::align_val_t(64)); }
    };
    std::unique_ptr<T, Free> values_;
};

// Numbers of types, as `native/library.py` has them.
enum Dtype : int32_t { FLOAT32 = 0, FLOAT64 = 1, FLOAT16 = 2, INT8 = 3, UINT8 = 4, BFLOAT16 = 5 };

// Call `f(const P*)` with the rows in their own type.
template <class F>
inline void with_rows(int32_t dtype, const void* rows, F&& f) {
    switch (dtype) {
        case FLOAT32: return f(static_cast<const float*>(rows));
        case FLOAT64: return f(static_cast<const double*>(rows));
        case FLOAT16: return f(static_cast<const Half*>(rows));
        case INT8: return f(static_cast<const int8_t*>(rows));
        case UINT8: return f(static_cast<const uint8_t*>(rows));
        case BFLOAT16: return f(static_cast<const BFloat*>(rows));
    }
    throw std::invalid_argument("dtype");
}

// What a function of the C interface returns: 0, or the kind of its error.
enum Status : int32_t { OK = 0, NO_MEMORY = 1, FAILED = 2 };

template <class F>
inline int32_t guarded(F&& f) noexcept {
    try {
        f();
        return OK;
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    } catch (...) {
        return FAILED;
    }
}

}  // namespace lwcs

#if defined(_WIN32)
#define LWCS_API extern "C" __declspec(dllexport)
#else
#define LWCS_API extern "C" __attribute__((visibility("default")))
#endif
