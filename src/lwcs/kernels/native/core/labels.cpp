// The nearest center of every row by the best score: for passes over rows, and for Lloyd's
// algorithm, which keeps its points in tiles.
#include "products.hpp"
#include "team.hpp"

#include <cmath>

namespace lwcs {
namespace {

struct Limits {
    double clear, tiny, large, rounding;
};

// Label rows, and flag those whose label is not certain.
template <class P, class T>
void nearest(int32_t dtype, const P* rows, int64_t n, int64_t d, const T* origin, const T* factor,
             const T* matrix, const double* sizes, int64_t k, const Limits& limits, const double* centers,
             const double* scale, int32_t* labels, uint8_t* unclear, double* distances, int64_t* n_unclear,
             void* team) {
    const Packed<T> packed(matrix, nullptr, k, d);
    const int64_t at_once = tiles_at_once(d, sizeof(T)), lot_rows = at_once * TILE;
    std::atomic<int64_t> total{0};
    share(team, (n + lot_rows - 1) / lot_rows, [&](int64_t lot) {
        const int64_t first = lot * lot_rows, many = std::min(lot_rows, n - first);
        const int64_t n_tiles = (many + TILE - 1) / TILE;
        Array<T> tiles(at_once * TILE * d), norms(lot_rows);
        Array<Wide<P>> memory(TILE * d);
        Array<BestOfTile<T>> found(at_once);
        for (int64_t t = 0; t < n_tiles; ++t) {
            fill_tile(rows + (first + t * TILE) * d, std::min(TILE, many - t * TILE), d, origin, factor,
                      tiles.get() + t * TILE * d, norms.get() + t * TILE, memory.get());
            found[t].reset();
        }
        compare<T, Wanted::BEST>(tiles.get(), n_tiles, d, packed, found.get());
        int64_t suspects[16 * TILE], n_suspects = 0, unsure = 0;
        for (int64_t i = 0; i < many; ++i) {
            const double norm = norms[i], best = found[i / TILE].best[i % TILE];
            const bool certain = norm - best > limits.clear * norm + limits.tiny && norm < limits.large &&
                                 best > -std::numeric_limits<double>::infinity();
            labels[first + i] = int32_t(found[i / TILE].label[i % TILE]);
            unclear[first + i] = !certain;
            if (!certain) suspects[n_suspects++] = i;
        }
        // The second best score of those that are close to their center relative to the origin.
        Array<T> again(n_suspects ? TILE * d : 0);
        BestOfTile<T> second;
        for (int64_t s = 0; s < n_suspects; s += TILE) {
            const int64_t some = std::min(TILE, n_suspects - s);
            std::fill_n(again.get(), TILE * d, T(0));
            for (int64_t q = 0; q < some; ++q) {
                const T* from = tiles.get() + suspects[s + q] / TILE * TILE * d + suspects[s + q] % TILE;
                for (int64_t j = 0; j < d; ++j) again[j * TILE + q] = from[j * TILE];
            }
            second.reset();
            compare<T, Wanted::SECOND>(again.get(), 1, d, packed, &second);
            for (int64_t q = 0; q < some; ++q) {
                const int64_t i = suspects[s + q];
                const double norm = norms[i], best = second.best[q];
                const double bound = norm + std::fabs(norm - best) + 2.0 * sizes[second.label[q]];
                const double gap = best - double(second.second[q]);
                const bool certain = gap > limits.rounding * bound + limits.tiny && bound < limits.large;
                unclear[first + i] = !certain;
                unsure += !certain;
            }
        }
        if (distances) own_distances(dtype, rows, centers, labels, scale, first, many, d, distances);
        total.fetch_add(unsure, std::memory_order_relaxed);
    });
    *n_unclear = total.load();
}

// What one iteration of Lloyd's algorithm knows and changes, per point.
template <class T>
struct Assignment {
    int64_t* labels;
    T *scores, *others;
    int64_t* old;
    const T *heights, *least;
    uint8_t *changed, *unknown;
};

template <class T>
void assign_all(const T* tiles, int64_t n_tiles, int64_t many, int64_t d, const Packed<T>& all, int64_t first,
                BestOfTile<T>* found, const Assignment<T>& to) {
    for (int64_t t = 0; t < n_tiles; ++t) found[t].reset();
    compare<T, Wanted::SECOND>(tiles, n_tiles, d, all, found);
    for (int64_t i = 0; i < many; ++i) {
        const BestOfTile<T>& own = found[i / TILE];
        to.labels[first + i] = own.label[i % TILE];
        to.scores[first + i] = own.best[i % TILE];
        to.others[first + i] = own.second[i % TILE];
    }
}

// Only the centers that moved are compared; the others are no nearer than `others`, and are compared
// as well only for points whose best known score is below that.
template <class T>
void assign_moved(const T* tiles, int64_t n_tiles, int64_t many, int64_t d, const Packed<T>& all,
                  const Packed<T>& some, const int64_t* moved, const int64_t* place, int64_t first,
                  BestOfTile<T>* found, T* gathered, const Assignment<T>& to) {
    typedef typename Kernel<T>::Index Index;
    for (int64_t t = 0; t < n_tiles; ++t) found[t].reset();
    for (int64_t i = 0; i < n_tiles * TILE; ++i) {
        BestOfTile<T>& own = found[i / TILE];
        own.own[i % TILE] = i < many ? Index(place[to.labels[first + i]]) : Index(-1);
        own.present[i % TILE] = i < many ? to.scores[first + i] : T(0);
    }
    compare<T, Wanted::PRESENT>(tiles, n_tiles, d, some, found);
    int64_t unsure[16 * TILE], n_unsure = 0;
    for (int64_t i = 0; i < many; ++i) {
        const BestOfTile<T>& own = found[i / TILE];
        const int64_t r = i % TILE, row = first + i, winner = moved[own.label[r]];
        const T best = own.best[r], present = own.present[r], bound = to.others[row];
        if (!(std::max(best, present) >= bound)) unsure[n_unsure++] = i;
        if (winner == to.labels[row]) {
            to.others[row] = std::max(bound, own.second[r]);
            to.scores[row] = best;
        } else if (best > present) {
            to.others[row] = std::max(bound, std::max(present, own.second[r]));
            to.labels[row] = winner;
            to.scores[row] = best;
        } else {
            to.others[row] = std::max(bound, best);
            to.scores[row] = present;
        }
    }
    BestOfTile<T> again;
    for (int64_t s = 0; s < n_unsure; s += TILE) {
        const int64_t few = std::min(TILE, n_unsure - s);
        std::fill_n(gathered, TILE * d, T(0));
        for (int64_t q = 0; q < few; ++q) {
            const T* from = tiles + unsure[s + q] / TILE * TILE * d + unsure[s + q] % TILE;
            for (int64_t j = 0; j < d; ++j) gathered[j * TILE + q] = from[j * TILE];
        }
        again.reset();
        compare<T, Wanted::SECOND>(gathered, 1, d, all, &again);
        for (int64_t q = 0; q < few; ++q) {
            const int64_t row = first + unsure[s + q];
            to.labels[row] = again.label[q];
            to.scores[row] = again.best[q];
            to.others[row] = again.second[q];
        }
    }
}

template <class T>
int64_t assign(const T* tiles, int64_t n, int64_t d, const T* matrix, int64_t k, const int64_t* moved,
               int64_t n_moved, const int64_t* place, const Assignment<T>& to, void* team) {
    const bool every = 2 * n_moved > k;
    const Packed<T> all(matrix, nullptr, k, d), some(matrix, moved, every ? 0 : n_moved, d);
    const int64_t at_once = tiles_at_once(d, sizeof(T)), lot_rows = at_once * TILE;
    std::atomic<int64_t> n_unknown{0};
    share(team, (n + lot_rows - 1) / lot_rows, [&](int64_t lot) {
        const int64_t first = lot * lot_rows, many = std::min(lot_rows, n - first);
        const int64_t n_tiles = (many + TILE - 1) / TILE;
        const T* own = tiles + first * d;
        Array<BestOfTile<T>> found(at_once);
        std::copy_n(to.labels + first, many, to.old + first);
        if (every) {
            assign_all(own, n_tiles, many, d, all, first, found.get(), to);
        } else {
            Array<T> gathered(TILE * d);
            assign_moved(own, n_tiles, many, d, all, some, moved, place, first, found.get(), gathered.get(), to);
        }
        int64_t unknown = 0;
        for (int64_t i = first; i < first + many; ++i) {
            if (to.labels[i] != to.old[i]) {
                // The C++ library of Clang has no std::atomic_ref before version 19.
                __atomic_store_n(to.changed + to.labels[i], uint8_t(1), __ATOMIC_RELAXED);
                if (to.old[i] >= 0) __atomic_store_n(to.changed + to.old[i], uint8_t(1), __ATOMIC_RELAXED);
            }
            to.unknown[i] = !(to.heights[i] - to.scores[i] > to.least[i]);
            unknown += to.unknown[i];
        }
        n_unknown.fetch_add(unknown, std::memory_order_relaxed);
    });
    return n_unknown.load();
}

}  // namespace
}  // namespace lwcs

using namespace lwcs;

// `wide` says that products are in double precision, which those of rows of doubles always are.
LWCS_API int32_t lwcs_nearest(int32_t dtype, int32_t wide, const void* rows, int64_t n, int64_t d,
                              const void* origin, const void* factor, const void* matrix, const double* sizes,
                              int64_t k, double clear, double tiny, double large, double rounding,
                              const double* centers, const double* scale, int32_t* labels, uint8_t* unclear,
                              double* distances, int64_t* n_unclear, void* team) {
    return guarded([&] {
        const Limits limits{clear, tiny, large, rounding};
        auto search = [&](auto* points, auto zero) {
            typedef decltype(zero) T;
            nearest<std::remove_const_t<std::remove_pointer_t<decltype(points)>>, T>(
                dtype, points, n, d, static_cast<const T*>(origin), static_cast<const T*>(factor),
                static_cast<const T*>(matrix), sizes, k, limits, centers, scale, labels, unclear, distances,
                n_unclear, team);
        };
        with_rows(dtype, rows, [&](auto* points) { wide ? search(points, 0.0) : search(points, 0.0f); });
    });
}

// Rows in tiles, in the coordinates of products, and their squared norms.
LWCS_API int32_t lwcs_pack(int32_t dtype, int32_t wide, const void* rows, int64_t n, int64_t d,
                           const void* origin, const void* factor, void* tiles, void* norms, void* team) {
    return guarded([&] {
        auto pack = [&](auto* points, auto zero) {
            typedef decltype(zero) T;
            typedef std::remove_const_t<std::remove_pointer_t<decltype(points)>> P;
            constexpr int64_t LOT = 16;
            const int64_t n_tiles = (n + TILE - 1) / TILE;
            share(team, (n_tiles + LOT - 1) / LOT, [&](int64_t lot) {
                Array<Wide<P>> memory(TILE * d);
                for (int64_t t = lot * LOT; t < std::min(n_tiles, (lot + 1) * LOT); ++t)
                    fill_tile(points + t * TILE * d, std::min(TILE, n - t * TILE), d,
                              static_cast<const T*>(origin), static_cast<const T*>(factor),
                              static_cast<T*>(tiles) + t * TILE * d, static_cast<T*>(norms) + t * TILE,
                              memory.get());
            });
        };
        with_rows(dtype, rows, [&](auto* points) { wide ? pack(points, 0.0) : pack(points, 0.0f); });
    });
}

LWCS_API int32_t lwcs_assign(int32_t wide, const void* tiles, int64_t n, int64_t d, const void* matrix,
                             int64_t k, const int64_t* moved, int64_t n_moved, const int64_t* place,
                             int64_t* labels, void* scores, void* others, int64_t* old, const void* heights,
                             const void* least, uint8_t* changed, uint8_t* unknown, int64_t* n_unknown,
                             void* team) {
    return guarded([&] {
        auto iterate = [&](auto zero) {
            typedef decltype(zero) T;
            const Assignment<T> to{labels, static_cast<T*>(scores), static_cast<T*>(others), old,
                                   static_cast<const T*>(heights), static_cast<const T*>(least), changed, unknown};
            *n_unknown = assign(static_cast<const T*>(tiles), n, d, static_cast<const T*>(matrix), k, moved,
                                n_moved, place, to, team);
        };
        wide ? iterate(0.0) : iterate(0.0f);
    });
}
