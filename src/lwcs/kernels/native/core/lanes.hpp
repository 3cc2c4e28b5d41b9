// Vectors with a fixed number of lanes, whatever the registers of a processor hold.
//
// A sum that is added up in eight lanes has the same bits on every instruction set, since each lane
// is one chain of additions and the lanes are added up in one order at the end.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define LWCS_VECTOR_BYTES 64
#elif defined(__AVX__)
#define LWCS_VECTOR_BYTES 32
#else
#define LWCS_VECTOR_BYTES 16
#endif

namespace lwcs {

// One register of a processor.
template <class T>
struct Register {
    typedef T type __attribute__((vector_size(LWCS_VECTOR_BYTES)));
    static constexpr int lanes = LWCS_VECTOR_BYTES / sizeof(T);
};

template <class V, class T>
inline V load(const T* from) {
    V value;
    std::memcpy(&value, from, sizeof(V));
    return value;
}

template <class V, class T>
inline void store(T* to, V value) {
    std::memcpy(to, &value, sizeof(V));
}

// Eight numbers in double precision.
struct Lanes {
    static constexpr int count = 8;
    static constexpr int each = Register<double>::lanes;
    static constexpr int parts = count / each;
    typedef Register<double>::type vector;
    vector part[parts];

    static Lanes zero() {
        Lanes out;
        for (int p = 0; p < parts; ++p) out.part[p] = vector{};
        return out;
    }
    static Lanes of(double value) {
        Lanes out;
        for (int p = 0; p < parts; ++p) out.part[p] = vector{} + value;
        return out;
    }
    static Lanes from(const double* values) {
        Lanes out;
        for (int p = 0; p < parts; ++p) out.part[p] = load<vector>(values + p * each);
        return out;
    }
    // Numbers of half the size: float or int32_t.
    template <class T>
    static Lanes from(const T* values) {
        typedef T half __attribute__((vector_size(each * sizeof(T))));
        Lanes out;
        for (int p = 0; p < parts; ++p)
            out.part[p] = __builtin_convertvector(load<half>(values + p * each), vector);
        return out;
    }
    // The first `n` of eight values, and zeros.
    template <class T>
    static Lanes some(const T* values, int64_t n) {
        T all[count] = {};
        for (int64_t i = 0; i < n; ++i) all[i] = values[i];
        return from(all);
    }
    void to(double* values) const {
        for (int p = 0; p < parts; ++p) store(values + p * each, part[p]);
    }
    void to_some(double* values, int64_t n) const {
        double all[count];
        to(all);
        for (int64_t i = 0; i < n; ++i) values[i] = all[i];
    }
    // ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)).
    double sum() const {
        double all[count];
        to(all);
        return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
    }
    Lanes& operator+=(const Lanes& other) {
        for (int p = 0; p < parts; ++p) part[p] += other.part[p];
        return *this;
    }
};

inline Lanes operator+(Lanes a, const Lanes& b) { return a += b; }
inline Lanes operator-(Lanes a, const Lanes& b) {
    for (int p = 0; p < Lanes::parts; ++p) a.part[p] -= b.part[p];
    return a;
}
inline Lanes operator*(Lanes a, const Lanes& b) {
    for (int p = 0; p < Lanes::parts; ++p) a.part[p] *= b.part[p];
    return a;
}

}  // namespace lwcs
