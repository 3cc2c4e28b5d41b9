// Distances of dense rows to one point, with their sums, and moments. No sum depends on the
// instruction set: products and sums are not contracted here, and sums are taken in eight lanes.
#include "bytes.hpp"
#include "lanes.hpp"
#include "rows.hpp"
#include "team.hpp"

#include <algorithm>
#include <cmath>

namespace lwcs {
namespace {

// Fewer columns than this are scanned with a row in each lane.
constexpr int64_t NARROW = 16;
// Rows of one piece of `moments`: small enough that its second sweep reads from the cache.
constexpr int64_t PIECE = 64;

// Sum of scale·(x − center)² over `d` columns.
template <class T>
inline double distance(const T* x, const double* center, const double* scale, int64_t d) {
    if (d < Lanes::count) {
        double sum = 0.0;
        for (int64_t j = 0; j < d; ++j) {
            const double offset = double(x[j]) - center[j];
            sum += scale ? scale[j] * (offset * offset) : offset * offset;
        }
        return sum;
    }
    Lanes sums = Lanes::zero();
    const int64_t whole = d - d % Lanes::count;
    for (int64_t j = 0; j < whole; j += Lanes::count) {
        const Lanes offset = Lanes::from(x + j) - Lanes::from(center + j);
        sums += scale ? Lanes::from(scale + j) * (offset * offset) : offset * offset;
    }
    if (whole < d) {
        const Lanes offset = Lanes::some(x + whole, d - whole) - Lanes::some(center + whole, d - whole);
        sums += scale ? Lanes::some(scale + whole, d - whole) * (offset * offset) : offset * offset;
    }
    return sums.sum();
}

// One row in each lane: `at` has eight rows, fewer are followed by any others that can be read.
template <class T>
inline Lanes eight_rows(const T* at, int64_t j, int64_t d) {
    T values[Lanes::count];
    for (int i = 0; i < Lanes::count; ++i) values[i] = at[i * d + j];
    return Lanes::from(values);
}

// d(x, pivot) of rows into `out`, Σω(x − pivot) into `shift`; returns Σω·d.
template <class T>
double scan_narrow(const T* rows, const double* weights, const double* pivot, const double* scale,
                   int64_t n, int64_t d, double* shift, double* out) {
    Lanes shifts[NARROW], cost = Lanes::zero();
    for (int64_t j = 0; j < d; ++j) shifts[j] = Lanes::zero();
    T last[Lanes::count * NARROW] = {};
    for (int64_t i = 0; i < n; i += Lanes::count) {
        const int64_t many = std::min<int64_t>(Lanes::count, n - i);
        const T* at = rows + i * d;
        if (many < Lanes::count) {
            std::memcpy(last, at, sizeof(T) * size_t(many * d));
            at = last;
        }
        double omega[Lanes::count];
        for (int64_t r = 0; r < Lanes::count; ++r) omega[r] = r < many ? (weights ? weights[i + r] : 1.0) : 0.0;
        const Lanes w = Lanes::from(omega);
        Lanes sums = Lanes::zero();
        for (int64_t j = 0; j < d; ++j) {
            const Lanes offset = eight_rows(at, j, d) - Lanes::of(pivot[j]);
            shifts[j] += w * offset;
            sums += scale ? Lanes::of(scale[j]) * (offset * offset) : offset * offset;
        }
        cost += w * sums;
        many == Lanes::count ? sums.to(out + i) : sums.to_some(out + i, many);
    }
    for (int64_t j = 0; j < d; ++j) shift[j] += shifts[j].sum();
    return cost.sum();
}

template <class T>
double scan_wide(const T* rows, const double* weights, const double* pivot, const double* scale,
                 int64_t n, int64_t d, double* shift, double* out) {
    double cost = 0.0;
    const int64_t whole = d - d % Lanes::count, rest = d - whole;
    for (int64_t i = 0; i < n; ++i) {
        const T* x = rows + i * d;
        const double omega = weights ? weights[i] : 1.0;
        const Lanes w = Lanes::of(omega);
        Lanes sums = Lanes::zero();
        for (int64_t j = 0; j < whole; j += Lanes::count) {
            const Lanes offset = Lanes::from(x + j) - Lanes::from(pivot + j);
            (Lanes::from(shift + j) + w * offset).to(shift + j);
            sums += scale ? Lanes::from(scale + j) * (offset * offset) : offset * offset;
        }
        if (rest) {
            const Lanes offset = Lanes::some(x + whole, rest) - Lanes::some(pivot + whole, rest);
            (Lanes::some(shift + whole, rest) + w * offset).to_some(shift + whole, rest);
            sums += scale ? Lanes::some(scale + whole, rest) * (offset * offset) : offset * offset;
        }
        out[i] = sums.sum();
        cost += omega * out[i];
    }
    return cost;
}

template <class T>
double scan(const T* rows, const double* weights, const double* pivot, const double* scale, int64_t n,
            int64_t d, double* shift, double* out) {
    return d < NARROW ? scan_narrow(rows, weights, pivot, scale, n, d, shift, out)
                      : scan_wide(rows, weights, pivot, scale, n, d, shift, out);
}

// Rows per conversion of narrow types: their values stay in the first level of the cache.
inline int64_t rows_at_once(int64_t d) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(d, 1)); }

// Call f(rows as floats, first, how many) for a few rows after the other.
template <class P, class F>
void by_pieces(const P* rows, int64_t n, int64_t d, F&& f) {
    if constexpr (std::is_same_v<P, Wide<P>>) {
        f(rows, int64_t(0), n);
    } else {
        const int64_t step = rows_at_once(d) + (-rows_at_once(d) & 7);
        Array<float> memory(step * d);
        for (int64_t i = 0; i < n; i += step) {
            const int64_t many = std::min(step, n - i);
            f(widen(rows + i * d, many * d, memory.get()), i, many);
        }
    }
}

// One line of values whose columns repeat: Σ(x − pivot)² of it; `sums` per position of the line.
template <class T, bool SCALED>
inline double scan_line(const T* x, const double* pivot, const double* scale, double* sums, int64_t length) {
    // Two chains of additions, since one would wait for each of its own.
    Lanes one = Lanes::zero(), two = Lanes::zero();
    const int64_t pairs = length - length % (2 * Lanes::count);
    int64_t j = 0;
    for (; j < pairs; j += 2 * Lanes::count) {
        const Lanes a = Lanes::from(x + j) - Lanes::from(pivot + j);
        const Lanes b = Lanes::from(x + j + 8) - Lanes::from(pivot + j + 8);
        (Lanes::from(sums + j) + a).to(sums + j);
        (Lanes::from(sums + j + 8) + b).to(sums + j + 8);
        if constexpr (SCALED) {
            one += Lanes::from(scale + j) * (a * a);
            two += Lanes::from(scale + j + 8) * (b * b);
        } else {
            one += a * a;
            two += b * b;
        }
    }
    for (; j < length; j += Lanes::count) {
        const int64_t many = std::min<int64_t>(Lanes::count, length - j);
        const Lanes a = Lanes::some(x + j, many) - Lanes::some(pivot + j, many);
        (Lanes::some(sums + j, many) + a).to_some(sums + j, many);
        one += SCALED ? Lanes::some(scale + j, many) * (a * a) : a * a;
    }
    return (one + two).sum();
}

template <class P>
void scan_cells_unweighted(const P* rows, const double* pivot, const double* scale, int64_t n, int64_t d,
                           int64_t block, int64_t cell, double* shifts, double* costs, double* cells) {
    typedef Wide<P> T;
    const int64_t length = cell * d;
    Array<double> around(length), scales(length), sums(length);
    Array<T> memory(length);
    for (int64_t i = 0; i < cell; ++i)
        for (int64_t j = 0; j < d; ++j) {
            around[i * d + j] = pivot[j];
            scales[i * d + j] = scale ? scale[j] : 1.0;
        }
    for (int64_t first = 0, b = 0; first < n; first += block, ++b) {
        const int64_t last = std::min(first + block, n);
        std::fill_n(sums.get(), length, 0.0);
        double cost = 0.0;
        for (int64_t i = first; i < last; i += cell) {
            const int64_t many = std::min(cell, last - i) * d;
            const T* x = widen(rows + i * d, many, memory.get());
            const double mass = scale ? scan_line<T, true>(x, around.get(), scales.get(), sums.get(), many)
                                      : scan_line<T, false>(x, around.get(), nullptr, sums.get(), many);
            cells[i / cell] = mass;
            cost += mass;
        }
        costs[b] = cost;
        for (int64_t i = 0; i < length; ++i) shifts[b * d + i % d] += sums[i];
    }
}

template <class P>
void scan_cells_weighted(const P* rows, const double* weights, const double* pivot, const double* scale,
                         int64_t n, int64_t d, int64_t block, int64_t cell, double* shifts, double* costs,
                         double* cells) {
    Array<double> distances(std::min(block, n));
    for (int64_t first = 0, b = 0; first < n; first += block, ++b) {
        const int64_t many = std::min(block, n - first);
        const double* omega = weights + first;
        costs[b] = 0.0;
        by_pieces(rows + first * d, many, d, [&](auto* x, int64_t at, int64_t some) {
            costs[b] += scan(x, omega + at, pivot, scale, some, d, shifts + b * d, distances.get() + at);
        });
        for (int64_t i = 0; i < many; i += cell) {
            double mass = 0.0;
            for (int64_t r = i; r < std::min(i + cell, many); ++r) mass += omega[r] * distances[r];
            cells[(first + i) / cell] = mass;
        }
    }
}

// Eight columns of a piece from column `j` on: their center, and the sums around it.
struct Columns {
    Lanes center, slip, spread;
};

// Around one of its rows, a piece of equal rows gives exactly zero, and so Φ = 0.
template <class F>
inline Columns around_mean(const double* weights, int64_t many, double weight, Lanes first, F&& values) {
    const auto sweep = [&](const Lanes& center, Lanes& slip, Lanes& spread) {
        for (int64_t i = 0; i < many; ++i) {
            const Lanes offset = values(i) - center, part = Lanes::of(weights[i]) * offset;
            slip += part;
            spread += part * offset;
        }
    };
    Lanes slip = Lanes::zero(), spread = Lanes::zero(), center = first;
    sweep(first, slip, spread);
    // Without weight there is no mean: what is left adds nothing, except NaN if a row is not finite.
    if (weight == 0.0) return {first, slip, Lanes::zero()};
    for (int p = 0; p < Lanes::parts; ++p) center.part[p] += slip.part[p] / weight;
    slip = spread = Lanes::zero();
    sweep(center, slip, spread);
    return {center, slip, spread};
}

// Weight, mean and scatter; each piece around its own mean, pieces merged exactly.
template <class P>
double moments(const P* rows, const double* weights, int64_t n, int64_t d, double* mean, double* scatter) {
    typedef Wide<P> T;
    double total = 0.0;
    Array<T> memory(PIECE * d);
    Array<double> center(d), slip(d), spread(d);
    // Rows of fewer than eight columns, filled up with zeros.
    Array<double> padded(d < Lanes::count ? PIECE * Lanes::count : 0, true);
    for (int64_t start = 0; start < n; start += PIECE) {
        const int64_t many = std::min(PIECE, n - start);
        const double* omega = weights + start;
        const T* x = widen(rows + start * d, many * d, memory.get());
        double weight = 0.0;
        int64_t first = 0;
        for (int64_t i = 0; i < many; ++i) {
            weight += omega[i];
            if (omega[i] > omega[first]) first = i;
        }
        const auto add_up = [&](const auto* from, int64_t stride, int64_t j, int64_t some) {
            const auto values = [&](int64_t i) { return Lanes::from(from + i * stride); };
            const Columns found = around_mean(omega, many, weight, values(first), values);
            found.center.to_some(center.get() + j, some);
            found.slip.to_some(slip.get() + j, some);
            found.spread.to_some(spread.get() + j, some);
        };
        if (d < Lanes::count) {
            for (int64_t i = 0; i < many; ++i)
                for (int64_t j = 0; j < d; ++j) padded[i * Lanes::count + j] = double(x[i * d + j]);
            add_up(padded.get(), Lanes::count, 0, d);
        } else {
            // The last eight columns may overlap with those before them, whose sums are the same again.
            for (int64_t each = 0; each < d; each += Lanes::count) {
                const int64_t j = std::min(each, d - Lanes::count);
                add_up(x + j, d, j, Lanes::count);
            }
        }
        if (weight == 0.0) {
            for (int64_t j = 0; j < d; ++j) mean[j] += slip[j];
            continue;
        }
        const double merged = total + weight, share = weight / merged, leverage = total * share;
        for (int64_t j = 0; j < d; ++j) {
            const double move = slip[j] / weight, delta = center[j] + move - mean[j];
            mean[j] += delta * share;
            scatter[j] += spread[j] - weight * (move * move) + leverage * (delta * delta);
        }
        total = merged;
    }
    return total;
}

// Rows of any type, one after the other, each as floats or doubles.
template <class P>
class Reader {
public:
    Reader(const P* rows, int64_t d) : rows_(rows), d_(d), memory_(std::is_same_v<P, Wide<P>> ? 0 : d) {}
    const Wide<P>* operator[](int64_t i) const { return widen(rows_ + i * d_, d_, memory_.get()); }

private:
    const P* rows_;
    int64_t d_;
    Array<Wide<P>> memory_;
};

}  // namespace

void own_distances(int32_t dtype, const void* rows, const double* centers, const int32_t* labels,
                   const double* scale, int64_t first, int64_t many, int64_t d, double* out) {
    with_rows(dtype, rows, [&](auto* points) {
        const Reader at(points, d);
        for (int64_t i = first; i < first + many; ++i)
            out[i] = distance(at[i], centers + labels[i] * d, scale, d);
    });
}

}  // namespace lwcs

using namespace lwcs;

LWCS_API int32_t lwcs_scan(int32_t dtype, const void* rows, const double* weights, const double* pivot,
                           const double* scale, int64_t n, int64_t d, double* shift, double* cost,
                           double* out) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            *cost = 0.0;
            by_pieces(points, n, d, [&](auto* x, int64_t at, int64_t many) {
                *cost += scan(x, weights ? weights + at : nullptr, pivot, scale, many, d, shift, out + at);
            });
        });
    });
}

LWCS_API int32_t lwcs_scan_cells(int32_t dtype, const void* rows, const double* weights, const double* pivot,
                                 const double* scale, int64_t n, int64_t d, int64_t block, int64_t cell,
                                 double* shifts, double* costs, double* cells, void* team) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            // The sums of a block do not depend on who adds them up.
            share(team, (n + block - 1) / block, [&](int64_t b) {
                const int64_t first = b * block, many = std::min(block, n - first);
                const auto* x = points + first * d;
                double *own = cells + first / cell, *shift = shifts + b * d;
                if (weights)
                    scan_cells_weighted(x, weights + first, pivot, scale, many, d, block, cell, shift, costs + b, own);
                else if constexpr (sizeof(*x) == 1) {
                    if (scanned_as_bytes(d, cell, scale))
                        costs[b] = scan_bytes(x, pivot, many, d, cell, shift, own);
                    else
                        scan_cells_unweighted(x, pivot, scale, many, d, block, cell, shift, costs + b, own);
                } else
                    scan_cells_unweighted(x, pivot, scale, many, d, block, cell, shift, costs + b, own);
            });
        });
    });
}

LWCS_API int32_t lwcs_moments(int32_t dtype, const void* rows, const double* weights, int64_t n, int64_t d,
                              double* weight, double* mean, double* scatter) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) { *weight = moments(points, weights, n, d, mean, scatter); });
    });
}

// One row of each run, where the running sum of ω·(factor·d(x, pivot) + floor) crosses its target.
LWCS_API int32_t lwcs_hit_rows(int32_t dtype, const void* rows, const double* weights, const double* pivot,
                               const double* mean, const double* scale, double factor, double floor, int64_t d,
                               int64_t n_runs, const int64_t* starts, const int64_t* stops,
                               const double* targets, int64_t* hits, double* bounds, double* distances) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            const Reader at(points, d);
            for (int64_t k = 0; k < n_runs; ++k) {
                double running = 0.0;
                for (int64_t i = starts[k]; i < stops[k]; ++i) {
                    const double bound = factor * distance(at[i], pivot, scale, d) + floor;
                    const double mass = weights ? weights[i] * bound : bound;
                    if (mass > 0.0 || i == starts[k]) {
                        hits[k] = i;
                        bounds[k] = bound;
                    }
                    running += mass;
                    if (running > targets[k]) break;
                }
                distances[k] = distance(at[hits[k]], mean, scale, d);
            }
        });
    });
}

// Lower `closest` where `center` is nearer; rows within reach of their own center are not read.
LWCS_API int32_t lwcs_closer(int32_t dtype, const void* rows, const double* weights, const double* center,
                             const double* scale, int64_t n, int64_t d, int64_t label, const double* reach,
                             double* closest, int64_t* labels, double* cost, int64_t* spared) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            const Reader at(points, d);
            double sum = 0.0;
            int64_t skipped = 0;
            for (int64_t i = 0; i < n; ++i) {
                if (reach && closest[i] <= reach[labels[i]]) {
                    ++skipped;
                } else {
                    const double found = distance(at[i], center, scale, d);
                    if (found < closest[i]) {
                        closest[i] = found;
                        labels[i] = label;
                    }
                }
                sum += weights ? weights[i] * closest[i] : closest[i];
            }
            *cost = sum;
            *spared = skipped;
        });
    });
}

// d of every row to the center that its label names, in double precision.
LWCS_API int32_t lwcs_own_distances(int32_t dtype, const void* rows, const double* centers,
                                    const int64_t* labels, const double* scale, int64_t n, int64_t d,
                                    double* out, void* team) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            constexpr int64_t LOT = 2048;
            auto measure = [&](int64_t lot) {
                const Reader at(points, d);
                for (int64_t i = lot * LOT; i < std::min(n, (lot + 1) * LOT); ++i)
                    out[i] = distance(at[i], centers + labels[i] * d, scale, d);
            };
            const int64_t lots = (n + LOT - 1) / LOT;
            share(team, lots, measure);
        });
    });
}

// Σω and Σω·(x − around) of the clusters that are wanted. Each cluster is added up in the order of
// its rows, so that its sums have the same bits for any number of threads.
LWCS_API int32_t lwcs_cluster_sums(int32_t dtype, const void* rows, const double* weights,
                                   const int64_t* labels, const uint8_t* wanted, const double* around,
                                   int64_t n, int64_t d, int64_t k, double* totals, double* sums, void* team) {
    return guarded([&] {
        with_rows(dtype, rows, [&](auto* points) {
            const int64_t whole = d - d % Lanes::count;
            auto add = [&](const auto& at, int64_t i) {
                const int64_t j = labels[i];
                const auto* x = at[i];
                const double omega = weights[i], *from = around + j * d;
                double* to = sums + j * d;
                const Lanes w = Lanes::of(omega);
                totals[j] += omega;
                int64_t c = 0;
                for (; c < whole; c += Lanes::count)
                    (Lanes::from(to + c) + w * (Lanes::from(x + c) - Lanes::from(from + c))).to(to + c);
                for (; c < d; ++c) to[c] += omega * (double(x[c]) - from[c]);
            };
            Team* members = static_cast<Team*>(team);
            if (!members || members->size() == 1) {
                const Reader at(points, d);
                for (int64_t i = 0; i < n; ++i)
                    if (wanted[labels[i]]) add(at, i);
                return;
            }
            // The rows by their clusters: a counting sort.
            Array<int64_t> starts(k + 1, true), order(n);
            for (int64_t i = 0; i < n; ++i)
                if (wanted[labels[i]]) ++starts[labels[i] + 1];
            for (int64_t j = 0; j < k; ++j) starts[j + 1] += starts[j];
            Array<int64_t> next(k);
            std::copy_n(starts.get(), k, next.get());
            for (int64_t i = 0; i < n; ++i)
                if (wanted[labels[i]]) order[next[labels[i]]++] = i;
            members->each(k, [&](int64_t j) {
                if (starts[j] == starts[j + 1]) return;
                const Reader at(points, d);
                for (int64_t r = starts[j]; r < starts[j + 1]; ++r) add(at, order[r]);
            });
        });
    });
}

LWCS_API int32_t lwcs_team_new(int32_t threads, void** team) {
    return guarded([&] { *team = new Team(threads); });
}
LWCS_API void lwcs_team_delete(void* team) { delete static_cast<Team*>(team); }
