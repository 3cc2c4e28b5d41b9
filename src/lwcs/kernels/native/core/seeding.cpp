// Rounds of k-means++ over points in tiles: distances to a few candidates, the choice of one of
// them, and the draw of the next. All rounds of a seeding are one call, or a few.
#include "products.hpp"
#include "team.hpp"

#include <cmath>

namespace lwcs {
namespace {

// Points whose sums are taken together, and candidates whose products stay in registers together.
constexpr int64_t BLOCK_TILES = 8, BLOCK = BLOCK_TILES * TILE, TOGETHER = 4;
// Below this part of their terms, distances from products have too few digits to draw by.
constexpr double CLEAR = 1e-11;

// The points of a seeding; `rows` are null where products are in single precision.
template <class T>
struct Points {
    const T *tiles, *heights;
    int64_t n, d;
    int32_t dtype;
    const void* rows;
    const double* scale;
    double unit;
};

// Some of the points as centers: d = height + offset + x·slope.
template <class T>
class Candidates {
public:
    Candidates(const Points<T>& from, int64_t many)
        : many(many), groups((many + TOGETHER - 1) / TOGETHER), from_(from),
          slopes_(groups * TOGETHER * from.d, true), offsets_(groups * TOGETHER, true), points_(many) {}

    void set(int64_t c, int64_t point) {
        const T* x = from_.tiles + point / TILE * TILE * from_.d + point % TILE;
        T* to = slopes_.get() + c / TOGETHER * TOGETHER * from_.d + c % TOGETHER;
        for (int64_t j = 0; j < from_.d; ++j) to[j * TOGETHER] = T(-2) * x[j * TILE];
        offsets_[c] = from_.heights[point];
        points_[c] = point;
    }
    int64_t point(int64_t c) const { return points_[c]; }

    // d of the points of a tile; rounding may leave some below zero.
    void distances(int64_t t, T* out, int64_t stride) const {
        typedef Kernel<T> K;
        typedef typename K::V V;
        const Points<T>& from = from_;
        for (int64_t g = 0; g < groups; ++g) {
            const T* offsets = offsets_.get() + g * TOGETHER;
            for (int64_t r = 0; r < TILE; r += K::ROWS) {
                const T* heights = from.heights + t * TILE + r;
                V acc[TOGETHER][2];
                for (int i = 0; i < TOGETHER; ++i) {
                    acc[i][0] = load<V>(heights) + K::splat(offsets[i]);
                    acc[i][1] = load<V>(heights + K::LANES) + K::splat(offsets[i]);
                }
                K::template multiply<TOGETHER>(from.tiles + t * TILE * from.d + r,
                                               slopes_.get() + g * TOGETHER * from.d, from.d, acc);
                for (int64_t i = 0; i < TOGETHER && g * TOGETHER + i < many; ++i) {
                    T* to = out + (g * TOGETHER + i) * stride + r;
                    store(to, acc[i][0]);
                    store(to + K::LANES, acc[i][1]);
                }
            }
        }
        for (int64_t c = 0; c < many; ++c) {
            T* own = out + c * stride;
            if (from.rows) mend(t, points_[c], own);
            if (points_[c] / TILE == t) own[points_[c] % TILE] = T(0);
        }
    }

    const int64_t many, groups;

private:
    // Distances that products have lost, from differences.
    void mend(int64_t t, int64_t point, T* out) const {
        const int64_t d = from_.d, many_rows = std::min(TILE, from_.n - t * TILE);
        const auto lost = [&](int64_t r) { return !(out[r] > T(CLEAR) * from_.heights[t * TILE + r]); };
        int64_t first = 0;
        while (first < many_rows && !lost(first)) ++first;
        if (first == many_rows) return;
        with_rows(from_.dtype, from_.rows, [&](auto* rows) {
            typedef std::remove_const_t<std::remove_pointer_t<decltype(rows)>> P;
            Array<Wide<P>> memory(d);
            Array<double> center(d);
            std::copy_n(widen(rows + point * d, d, memory.get()), d, center.get());
            for (int64_t r = first; r < many_rows; ++r) {
                if (!lost(r)) continue;
                const int32_t label = 0;
                double exact;
                own_distances(from_.dtype, rows + (t * TILE + r) * d, center.get(), &label, from_.scale, 0, 1, d, &exact);
                // An infinite distance would be drawn for certain.
                if (std::isfinite(exact)) out[r] = T(exact * from_.unit);
            }
        });
    }

    const Points<T>& from_;
    Array<T> slopes_, offsets_;
    Array<int64_t> points_;
};

// The smaller of both, and no less than zero; NaN if a distance is.
template <class T>
inline T lowered(T closest, T distance) {
    const T found = T(0) > distance ? T(0) : distance;
    return closest < found ? closest : found;
}

// State of the rounds; `counts` are the number of chosen points, the best candidate, and the end.
template <class T>
struct Rounds {
    const T* weights;
    const double* uniforms;
    int64_t k;
    double stop_at;
    int64_t* candidates;
    T *closest, *reached;
    double* sums;
    int64_t *chosen, *counts;
};

// Distances of the points of a block to their nearest center, with each candidate.
template <class T>
void try_candidates(const Points<T>& points, const Candidates<T>& candidates, const Rounds<T>& rounds, int64_t b) {
    const int64_t many = candidates.many, n_tiles = (points.n + TILE - 1) / TILE;
    T *reached = rounds.reached + b * many * BLOCK, *closest = rounds.closest + b * BLOCK;
    std::copy_n(reached + rounds.counts[1] * BLOCK, BLOCK, closest);
    const int64_t last = std::min(BLOCK_TILES, n_tiles - b * BLOCK_TILES);
    for (int64_t t = 0; t < last; ++t) candidates.distances(b * BLOCK_TILES + t, reached + t * TILE, BLOCK);
    const T* weights = rounds.weights + b * BLOCK;
    for (int64_t c = 0; c < many; ++c) {
        T* own = reached + c * BLOCK;
        Lanes total = Lanes::zero();
        for (int64_t i = 0; i < last * TILE; i += Lanes::count) {
            for (int64_t r = i; r < i + Lanes::count; ++r) own[r] = lowered(closest[r], own[r]);
            total += Lanes::from(weights + i) * Lanes::from(own + i);
        }
        rounds.sums[b * many + c] = total.sum();
    }
}

// The point at which the running sum exceeds a number, or the last one with a part in it.
template <class T>
int64_t draw(const T* weights, const T* distances, double below, int64_t many) {
    double total = 0.0;
    int64_t last = 0;
    for (int64_t i = 0; i < many; ++i) {
        const double part = double(weights[i]) * double(distances[i]);
        if (part > 0.0) {
            total += part;
            last = i;
            if (total > below) break;
        }
    }
    return last;
}

// Choose the candidate of the least cost, and draw the next ones.
template <class T>
void choose(const Points<T>& points, Candidates<T>& candidates, const Rounds<T>& rounds, double* up_to) {
    const int64_t many = candidates.many, n_blocks = (points.n + BLOCK - 1) / BLOCK;
    double totals[64] = {};
    for (int64_t b = 0; b < n_blocks; ++b)
        for (int64_t c = 0; c < many; ++c) totals[c] += rounds.sums[b * many + c];
    int64_t best = 0;
    // A cost of NaN, which ends the rounds, is chosen first.
    for (int64_t c = 1; c < many; ++c)
        if (!(totals[c] >= totals[best]) && !std::isnan(totals[best])) best = c;
    int64_t& n_chosen = rounds.counts[0];
    rounds.chosen[n_chosen++] = candidates.point(best);
    rounds.counts[1] = best;
    if (n_chosen == rounds.k || !(rounds.stop_at < totals[best] && totals[best] < INFINITY)) {
        rounds.counts[2] = 1;
        return;
    }
    double sum = 0.0;
    for (int64_t b = 0; b < n_blocks; ++b) up_to[b] = sum += rounds.sums[b * many + best];
    for (int64_t c = 0; c < many; ++c) {
        // A uniform number times a sum that is not a normal number can be rounded up to the sum.
        const double below = std::min(rounds.uniforms[n_chosen * many + c] * sum, std::nextafter(sum, 0.0));
        const int64_t b = std::upper_bound(up_to, up_to + n_blocks, below) - up_to;
        const double within = below - (b ? up_to[b - 1] : 0.0);
        const int64_t place = draw(rounds.weights + b * BLOCK, rounds.reached + (b * many + best) * BLOCK, within,
                                   std::min(BLOCK, points.n - b * BLOCK));
        rounds.candidates[c] = b * BLOCK + place;
        candidates.set(c, rounds.candidates[c]);
    }
}

template <class T>
void seed(const Points<T>& points, int64_t many, const Rounds<T>& rounds, int64_t at_most, Team* team) {
    const int64_t n_blocks = (points.n + BLOCK - 1) / BLOCK;
    Candidates<T> candidates(points, many);
    for (int64_t c = 0; c < many; ++c) candidates.set(c, rounds.candidates[c]);
    Array<double> up_to(n_blocks);
    // Few lots per thread, since claims of different threads delay each other.
    const int64_t threads = team ? team->size() : 1, lot = (n_blocks + 4 * threads - 1) / (4 * threads);
    auto work = [&](int64_t at) {
        for (int64_t b = at * lot; b < std::min(n_blocks, (at + 1) * lot); ++b)
            try_candidates(points, candidates, rounds, b);
    };
    for (; at_most > 0 && !rounds.counts[2]; --at_most) {
        if (team) {
            team->each((n_blocks + lot - 1) / lot, work);
        } else {
            for (int64_t b = 0; b < n_blocks; ++b) try_candidates(points, candidates, rounds, b);
        }
        choose(points, candidates, rounds, up_to.get());
    }
}

// The first of some candidates for which it pays to give up a center: its number, and the center.
template <class T>
void try_swaps(const T* distances, int64_t n, int64_t first, int64_t many, const T* nearest, const T* second,
               const double* weights, const int64_t* labels, const double* losses, int64_t k, double cancelled,
               double least_gain, int64_t* found) {
    Array<double> left(k);
    for (int64_t c = first; c < many; ++c) {
        std::copy_n(losses, k, left.get());
        double gain = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            // For points that the candidate is not nearer to, only the loss of their center matters.
            T apart = distances[c * n + i];
            if (!(apart < second[i])) continue;
            apart = std::max(apart, T(0));
            const T closest = std::min(nearest[i], apart);
            gain += weights[i] * double(nearest[i] - closest);
            // For the others, the loss of their center then costs apart − closest instead.
            left[labels[i]] -= weights[i] * double((second[i] - nearest[i]) - (apart - closest));
        }
        // Neither a rounded difference nor infinite distances are a reason to lose a center.
        int64_t lost = 0;
        for (int64_t j = 0; j < k; ++j) {
            left[j] = std::fmax(left[j], cancelled * losses[j]);
            if (left[j] < left[lost]) lost = j;
        }
        if (gain - left[lost] > least_gain) {
            found[0] = c;
            found[1] = lost;
            return;
        }
    }
    found[0] = -1;
}

template <class F>
void in_precision(int32_t wide, const void* tiles, const void* heights, int64_t n, int64_t d, int32_t dtype,
                  const void* rows, const double* scale, double unit, F&& f) {
    auto call = [&](auto zero) {
        typedef decltype(zero) T;
        f(Points<T>{static_cast<const T*>(tiles), static_cast<const T*>(heights), n, d, dtype, rows, scale, unit});
    };
    wide ? call(0.0) : call(0.0f);
}

// Call `f(tile)` for all tiles, shared by a team.
template <class F>
void each_tile(int64_t n, void* team, F&& f) {
    constexpr int64_t LOT = 16;
    const int64_t n_tiles = (n + TILE - 1) / TILE, lots = (n_tiles + LOT - 1) / LOT;
    auto work = [&](int64_t lot) {
        for (int64_t t = lot * LOT; t < std::min(n_tiles, (lot + 1) * LOT); ++t) f(t);
    };
    share(team, lots, work);
}

}  // namespace
}  // namespace lwcs

using namespace lwcs;

// d of all points to some of them, one row per choice.
LWCS_API int32_t lwcs_seed_distances(int32_t wide, const void* tiles, const void* heights, int64_t n, int64_t d,
                                     int32_t dtype, const void* rows, const double* scale, double unit,
                                     const int64_t* chosen, int64_t many, void* out, void* team) {
    return guarded([&] {
        in_precision(wide, tiles, heights, n, d, dtype, rows, scale, unit, [&]<class T>(const Points<T>& points) {
            Candidates<T> candidates(points, many);
            for (int64_t c = 0; c < many; ++c) candidates.set(c, chosen[c]);
            each_tile(n, team, [&](int64_t t) {
                Array<T> found(many * TILE);
                candidates.distances(t, found.get(), TILE);
                for (int64_t c = 0; c < many; ++c)
                    std::copy_n(found.get() + c * TILE, std::min(TILE, n - t * TILE),
                                static_cast<T*>(out) + c * n + t * TILE);
            });
        });
    });
}

// The distance of every point to the nearest of those chosen, if that is below what is there.
LWCS_API int32_t lwcs_seed_closest(int32_t wide, const void* tiles, const void* heights, int64_t n, int64_t d,
                                   int32_t dtype, const void* rows, const double* scale, double unit,
                                   const int64_t* chosen, int64_t many, void* closest, void* team) {
    return guarded([&] {
        in_precision(wide, tiles, heights, n, d, dtype, rows, scale, unit, [&]<class T>(const Points<T>& points) {
            for (int64_t first = 0; first < many; first += TOGETHER) {
                const int64_t some = std::min(TOGETHER, many - first);
                Candidates<T> candidates(points, some);
                for (int64_t c = 0; c < some; ++c) candidates.set(c, chosen[first + c]);
                each_tile(n, team, [&](int64_t t) {
                    T found[TOGETHER * TILE], *own = static_cast<T*>(closest) + t * TILE;
                    candidates.distances(t, found, TILE);
                    for (int64_t i = 0; i < some * TILE; ++i) own[i % TILE] = lowered(own[i % TILE], found[i]);
                });
            }
        });
    });
}

LWCS_API int32_t lwcs_seed(int32_t wide, const void* tiles, const void* heights, int64_t n, int64_t d,
                           int32_t dtype, const void* rows, const double* scale, double unit, const void* weights,
                           const double* uniforms, int64_t k, int64_t many, double stop_at, int64_t* candidates,
                           void* closest, void* reached, double* sums, int64_t* chosen, int64_t* counts,
                           int64_t at_most, void* team) {
    return guarded([&] {
        in_precision(wide, tiles, heights, n, d, dtype, rows, scale, unit, [&]<class T>(const Points<T>& points) {
            const Rounds<T> rounds{static_cast<const T*>(weights), uniforms, k, stop_at, candidates,
                                   static_cast<T*>(closest), static_cast<T*>(reached), sums, chosen, counts};
            seed(points, many, rounds, at_most, static_cast<Team*>(team));
        });
    });
}

LWCS_API int32_t lwcs_try_swaps(int32_t wide, const void* distances, int64_t n, int64_t first, int64_t many,
                                const void* nearest, const void* second, const double* weights,
                                const int64_t* labels, const double* losses, int64_t k, double cancelled,
                                double least_gain, int64_t* found) {
    return guarded([&] {
        auto attempt = [&](auto zero) {
            typedef decltype(zero) T;
            try_swaps(static_cast<const T*>(distances), n, first, many, static_cast<const T*>(nearest),
                      static_cast<const T*>(second), weights, labels, losses, k, cancelled, least_gain, found);
        };
        wide ? attempt(0.0) : attempt(0.0f);
    });
}
