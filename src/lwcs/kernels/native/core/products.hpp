// Rows in tiles, and their products with centers.
//
// A tile has 32 rows, one column after the other: a register then has the same column of several
// rows, every score is one chain of multiplications and additions over the columns, and neither
// depends on how many lanes a register has. The products of twelve centers (six where there are
// fewer registers) with a tile stay in registers until they are compared.
#pragma once

#include "lanes.hpp"
#include "rows.hpp"

#include <algorithm>
#include <limits>

namespace lwcs {

constexpr int64_t TILE = 32;

template <class T>
struct Kernel {
    typedef typename Register<T>::type V;
    typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> Index;
    typedef typename Register<Index>::type IV;
    static constexpr int LANES = Register<T>::lanes;
    static constexpr int REGISTERS = 2;
    static constexpr int ROWS = LANES * REGISTERS;
#if LWCS_VECTOR_BYTES == 64 || defined(__aarch64__)
    static constexpr int GROUP = 12;
#else
    static constexpr int GROUP = 6;
#endif

    static V splat(T value) { return V{} + value; }

    // acc[i][u] += Σ_j x[j]·centers[j][i], for `G` centers.
    template <int G>
    static inline void multiply(const T* x, const T* centers, int64_t d, V (&acc)[G][REGISTERS]) {
        for (int64_t j = 0; j < d; ++j, x += TILE, centers += G) {
            const V a = load<V>(x), b = load<V>(x + LANES);
            for (int i = 0; i < G; ++i) {
                const V c = splat(centers[i]);
                acc[i][0] += a * c;
                acc[i][1] += b * c;
            }
        }
    }
};

// Slopes and offsets of centers, in groups: column after column, and −∞ for centers that fill up.
template <class T>
class Packed {
public:
    static constexpr int64_t GROUP = Kernel<T>::GROUP;

    // `matrix` has one center per row: its slopes, and its offset as the last column. `at` chooses
    // some of the centers, or is null.
    Packed(const T* matrix, const int64_t* at, int64_t k, int64_t d)
        : k(k), groups((k + GROUP - 1) / GROUP), d_(d), slopes_(groups * GROUP * d), offsets_(groups * GROUP) {
        for (int64_t c = 0; c < groups * GROUP; ++c) {
            const T* center = c < k ? matrix + (at ? at[c] : c) * (d + 1) : nullptr;
            T* to = slopes_.get() + c / GROUP * GROUP * d + c % GROUP;
            for (int64_t j = 0; j < d; ++j) to[j * GROUP] = center ? center[j] : T(0);
            offsets_[c] = center ? center[d] : -std::numeric_limits<T>::infinity();
        }
    }
    const T* slopes(int64_t group) const { return slopes_.get() + group * GROUP * d_; }
    const T* offsets(int64_t group) const { return offsets_.get() + group * GROUP; }

    const int64_t k, groups;

private:
    int64_t d_;
    Array<T> slopes_, offsets_;
};

// The best score of every row of a tile, where it is, and what else is asked for.
template <class T>
struct alignas(64) BestOfTile {
    typedef typename Kernel<T>::Index Index;
    T best[TILE], second[TILE], present[TILE];
    Index label[TILE], own[TILE];

    void reset() {
        std::fill_n(best, TILE, -std::numeric_limits<T>::infinity());
        std::fill_n(second, TILE, -std::numeric_limits<T>::infinity());
        std::fill_n(label, TILE, Index(0));
    }
};

enum class Wanted { BEST, SECOND, PRESENT };

// Compare tiles with all centers. A score that is NaN is never the best; if the second best is
// wanted, it then equals the best, so that the row is not certain of its label. `PRESENT` also
// keeps the score of the center `own`.
template <class T, Wanted WANTED>
void compare(const T* tiles, int64_t n_tiles, int64_t d, const Packed<T>& centers, BestOfTile<T>* found) {
    typedef Kernel<T> K;
    typedef typename K::V V;
    typedef typename K::IV IV;
    constexpr int G = K::GROUP;
    for (int64_t g = 0; g < centers.groups; ++g) {
        const T* offsets = centers.offsets(g);
        for (int64_t t = 0; t < n_tiles; ++t) {
            for (int64_t r = 0; r < TILE; r += K::ROWS) {
                V acc[G][2];
                for (int i = 0; i < G; ++i) acc[i][0] = acc[i][1] = K::splat(offsets[i]);
                K::template multiply<G>(tiles + t * TILE * d + r, centers.slopes(g), d, acc);
                for (int u = 0; u < 2; ++u) {
                    const int64_t at = r + u * K::LANES;
                    BestOfTile<T>& to = found[t];
                    V best = load<V>(to.best + at), second = load<V>(to.second + at), present = second;
                    IV label = load<IV>(to.label + at), own = label;
                    if constexpr (WANTED == Wanted::PRESENT) {
                        present = load<V>(to.present + at);
                        own = load<IV>(to.own + at);
                    }
                    for (int i = 0; i < G; ++i) {
                        const V score = acc[i][u];
                        const IV here = IV{} + typename K::Index(g * G + i);
                        if constexpr (WANTED != Wanted::BEST) {
                            const V lower = score < best ? score : best;
                            second = lower > second ? lower : second;
                        }
                        if constexpr (WANTED == Wanted::PRESENT) present = own == here ? score : present;
                        label = score > best ? here : label;
                        best = score > best ? score : best;
                    }
                    store(to.best + at, best);
                    store(to.label + at, label);
                    if constexpr (WANTED != Wanted::BEST) store(to.second + at, second);
                    if constexpr (WANTED == Wanted::PRESENT) store(to.present + at, present);
                }
            }
        }
    }
}

// Tiles that are compared with a group of centers one after the other: half of a usual second level
// of the cache, so that large groups are read less often from beyond it.
inline int64_t tiles_at_once(int64_t d, size_t itemsize) {
    return std::clamp<int64_t>(int64_t(1 << 17) / int64_t(TILE * size_t(std::max<int64_t>(d, 1)) * itemsize), 1, 16);
}

// Every second value of the result from each of two vectors of eight, from their first or second half.
template <class T, class V>
inline V interleaved(V a, V b, bool second) {
#if defined(__clang__)
    return second ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                  : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else  // GCC has the other one since version 12
    typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> Index;
    typedef Index IV __attribute__((vector_size(8 * sizeof(T))));
    return second ? __builtin_shuffle(a, b, IV{4, 12, 5, 13, 6, 14, 7, 15})
                  : __builtin_shuffle(a, b, IV{0, 8, 1, 9, 2, 10, 3, 11});
#endif
}

// Eight vectors of eight values: the rows of a square become its columns. Each round interleaves the
// first half of the vectors with the second; after log₂ of their number, columns are rows.
template <class T, class V>
inline void transpose(V (&rows)[8]) {
    V next[8];
    for (int round = 0; round < 3; ++round) {
        for (int j = 0; j < 4; ++j) {
            next[2 * j] = interleaved<T>(rows[j], rows[j + 4], false);
            next[2 * j + 1] = interleaved<T>(rows[j], rows[j + 4], true);
        }
        std::copy_n(next, 8, rows);
    }
}

// Put up to 32 rows into a tile: (x − origin)·factor, and Σ of its squares; zeros fill it up.
template <class P, class T>
void fill_tile(const P* rows, int64_t many, int64_t d, const T* origin, const T* factor, T* tile, T* norms,
               Wide<P>* memory) {
    typedef Wide<P> W;
    typedef std::common_type_t<W, T> C;  // the difference is taken in the wider type of both
    typedef W VW __attribute__((vector_size(8 * sizeof(W))));
    typedef C VC __attribute__((vector_size(8 * sizeof(C))));
    typedef T V __attribute__((vector_size(8 * sizeof(T))));
    const W* x = widen(rows, many * d, memory);
    const int64_t whole = d - d % 8;
    for (int64_t r = 0; r < TILE; r += 8) {
        V sums{};
        const int64_t some = std::clamp<int64_t>(many - r, 0, 8);
        T* to = tile + r;
        if (some == 8) {
            for (int64_t j = 0; j < whole; j += 8) {
                V square[8];
                const VC shift = __builtin_convertvector(load<V>(origin + j), VC);
                for (int i = 0; i < 8; ++i) {
                    const VC values = __builtin_convertvector(load<VW>(x + (r + i) * d + j), VC);
                    square[i] = __builtin_convertvector(values - shift, V);
                    if (factor) square[i] *= load<V>(factor + j);
                }
                transpose<T>(square);
                for (int i = 0; i < 8; ++i) {
                    store(to + (j + i) * TILE, square[i]);
                    sums += square[i] * square[i];
                }
            }
        }
        for (int64_t j = some == 8 ? whole : 0; j < d; ++j) {
            V column{};
            for (int64_t i = 0; i < some; ++i) {
                const T value = T(C(x[(r + i) * d + j]) - C(origin[j]));
                column[i] = factor ? value * factor[j] : value;
            }
            store(to + j * TILE, column);
            sums += column * column;
        }
        T all[8];
        store(all, sums);
        std::copy_n(all, some, norms + r);
    }
}

// d of some rows to the centers that their labels name (`scans.cpp`).
void own_distances(int32_t dtype, const void* rows, const double* centers, const int32_t* labels,
                   const double* scale, int64_t first, int64_t many, int64_t d, double* out);

}  // namespace lwcs
