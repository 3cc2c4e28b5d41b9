// CSR rows, at the cost of their stored values. As in `scans.cpp`, no sum is contracted.
#include "rows.hpp"
#include "team.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lwcs {
namespace {

template <class T, class I, class S>
struct Csr {
    const T* data;
    const I* indices;
    const S* starts;
    int64_t n, d;
};

// A pivot: per column the point, and the first part of what a zero costs; and the costs of a row of
// zeros, of the second parts and of the first ones.
struct Pivot {
    const double *columns, *precision;
    double rest, coarse;
};

struct Change {
    double offset, change;
};

// x − point, and d of this value less the rest of what a zero costs in its place.
inline Change change_of(double value, double point, double coarse, const double* precision, int64_t j) {
    const double offset = value - point;
    if (!precision) return {offset, offset * offset - (point * point - coarse)};
    const double scale = precision[j];
    return {offset, scale * (offset * offset) - (scale * (point * point) - coarse)};
}

template <class R>
inline double distance(const R& rows, int64_t i, const Pivot& around) {
    double there = around.rest, away = around.coarse;
    for (int64_t at = rows.starts[i]; at < int64_t(rows.starts[i + 1]); ++at) {
        const int64_t j = rows.indices[at];
        const double coarse = around.columns[2 * j + 1];
        there += change_of(double(rows.data[at]), around.columns[2 * j], coarse, around.precision, j).change;
        away -= coarse;
    }
    const double found = there + away;
    return found < 0.0 ? 0.0 : found;
}

template <class R>
double scan(const R& rows, const double* weights, const Pivot& around, double* shift, double* out) {
    // All numbers of a column are adjacent: one cache line per stored value.
    struct Column {
        double point, coarse, sum, weight;
    };
    Array<Column> table(rows.d);
    for (int64_t j = 0; j < rows.d; ++j) table[j] = {around.columns[2 * j], around.columns[2 * j + 1], 0.0, 0.0};
    double total = 0.0, cost = 0.0;
    for (int64_t i = 0; i < rows.n; ++i) {
        const double omega = weights[i];
        double there = around.rest, away = around.coarse;
        for (int64_t at = rows.starts[i]; at < int64_t(rows.starts[i + 1]); ++at) {
            const int64_t j = rows.indices[at];
            Column& column = table[j];
            const Change found = change_of(double(rows.data[at]), column.point, column.coarse, around.precision, j);
            there += found.change;
            away -= column.coarse;
            column.sum += omega * found.offset;
            column.weight += omega;
        }
        const double found = there + away;
        out[i] = found < 0.0 ? 0.0 : found;
        cost += omega * out[i];
        total += omega;
    }
    for (int64_t j = 0; j < rows.d; ++j) shift[j] = table[j].sum - (total - table[j].weight) * table[j].point;
    return cost;
}

template <class R>
double moments(const R& rows, const double* weights, double* mean, double* scatter) {
    double weight = 0.0;
    for (int64_t i = 0; i < rows.n; ++i) weight += weights[i];
    if (weight == 0.0) {
        double spoiled = 0.0;
        for (int64_t at = rows.starts[0]; at < int64_t(rows.starts[rows.n]); ++at) spoiled += 0.0 * double(rows.data[at]);
        std::fill_n(mean, rows.d, spoiled);
        return weight;
    }
    const int64_t first = std::max_element(weights, weights + rows.n) - weights;
    for (int64_t at = rows.starts[first]; at < int64_t(rows.starts[first + 1]); ++at)
        mean[rows.indices[at]] = double(rows.data[at]);
    Array<double> slip(rows.d), present(rows.d);
    for (int sweep = 0; sweep < 2; ++sweep) {
        std::fill_n(slip.get(), rows.d, 0.0);
        std::fill_n(present.get(), rows.d, 0.0);
        for (int64_t i = 0; i < rows.n; ++i) {
            const double omega = weights[i];
            for (int64_t at = rows.starts[i]; at < int64_t(rows.starts[i + 1]); ++at) {
                const int64_t j = rows.indices[at];
                const double offset = double(rows.data[at]) - mean[j];
                slip[j] += omega * offset;
                present[j] += omega;
                if (sweep) scatter[j] += omega * (offset * offset);
            }
        }
        for (int64_t j = 0; j < rows.d; ++j) {
            const double at_zero = weight - present[j];
            slip[j] = (slip[j] - at_zero * mean[j]) / weight;
            if (sweep) {
                scatter[j] += at_zero * (mean[j] * mean[j]) - weight * (slip[j] * slip[j]);
                scatter[j] = scatter[j] < 0.0 ? 0.0 : scatter[j];
            }
            mean[j] += slip[j];
        }
    }
    return weight;
}

// The largest score of every row, where it is, and the second largest. A row with NaN among its
// scores has the label of the first one, and NaN for both.
template <class R>
void best_scores(const R& rows, const double* __restrict matrix, const double* __restrict offsets, int64_t k,
                 int64_t* labels, double* best, double* second) {
    Array<double> memory(k);
    double* __restrict scores = memory.get();
    for (int64_t i = 0; i < rows.n; ++i) {
        std::fill_n(scores, k, 0.0);
        int64_t at = rows.starts[i];
        const int64_t stop = rows.starts[i + 1];
        // Four at a time, in the same order: the scores are read and written a quarter as often.
        for (; at + 4 <= stop; at += 4) {
            const double a = rows.data[at], b = rows.data[at + 1], c = rows.data[at + 2], e = rows.data[at + 3];
            const double* __restrict of_a = matrix + int64_t(rows.indices[at]) * k;
            const double* __restrict of_b = matrix + int64_t(rows.indices[at + 1]) * k;
            const double* __restrict of_c = matrix + int64_t(rows.indices[at + 2]) * k;
            const double* __restrict of_e = matrix + int64_t(rows.indices[at + 3]) * k;
            for (int64_t j = 0; j < k; ++j)
                scores[j] = (((scores[j] + a * of_a[j]) + b * of_b[j]) + c * of_c[j]) + e * of_e[j];
        }
        for (; at < stop; ++at) {
            const double value = rows.data[at];
            const double* __restrict slopes = matrix + int64_t(rows.indices[at]) * k;
            for (int64_t j = 0; j < k; ++j) scores[j] += value * slopes[j];
        }
        double top = -INFINITY, next = -INFINITY;
        int64_t label = 0;
        for (int64_t j = 0; j < k; ++j) {
            const double score = scores[j] + offsets[j];
            // Few get past this, NaN among them.
            if (score <= next) continue;
            if (score > top) {
                next = top;
                top = score;
                label = j;
            } else if (score <= top) {
                next = score;
            } else {
                top = next = NAN;
                label = j;
                break;
            }
        }
        labels[i] = label;
        best[i] = top;
        second[i] = next;
    }
}

// Σω and Σω·(x − around) of the clusters that are wanted, each in the order of its rows.
template <class R>
void cluster_sums(const R& rows, const double* weights, const int64_t* labels, const uint8_t* wanted,
                  const double* around, int64_t k, double* totals, double* sums, void* team) {
    const int64_t d = rows.d;
    Array<int64_t> ends(k, true), order(rows.n);
    for (int64_t i = 0; i < rows.n; ++i) ++ends[labels[i]];
    for (int64_t c = 1; c < k; ++c) ends[c] += ends[c - 1];
    for (int64_t i = rows.n; i-- > 0;) order[--ends[labels[i]]] = i;
    share(team, k, [&](int64_t c) {
        const int64_t first = ends[c], last = c + 1 < k ? ends[c + 1] : rows.n;
        if (!wanted[c] || first == last) return;
        Array<double> there(d, true);
        const double* center = around + c * d;
        double *own = sums + c * d, total = 0.0;
        for (int64_t r = first; r < last; ++r) {
            const int64_t i = order[r];
            const double omega = weights[i];
            for (int64_t at = rows.starts[i]; at < int64_t(rows.starts[i + 1]); ++at) {
                const int64_t j = rows.indices[at];
                own[j] += omega * (double(rows.data[at]) - center[j]);
                there[j] += omega;
            }
            total += omega;
        }
        // In the same order as `there`: a column without zeros has then exactly none.
        for (int64_t j = 0; j < d; ++j) own[j] -= (total - there[j]) * center[j];
        totals[c] = total;
    });
}

// Call `f(rows)` for a type of values, of column numbers and of row starts.
template <class F>
void with_csr(int32_t dtype, int32_t long_indices, int32_t long_starts, const void* data, const void* indices,
              const void* starts, int64_t n, int64_t d, F&& f) {
    auto of_values = [&](auto* values) {
        typedef std::remove_const_t<std::remove_pointer_t<decltype(values)>> T;
        auto of_indices = [&](auto* places) {
            typedef std::remove_const_t<std::remove_pointer_t<decltype(places)>> I;
            if (long_starts)
                f(Csr<T, I, int64_t>{values, places, static_cast<const int64_t*>(starts), n, d});
            else
                f(Csr<T, I, int32_t>{values, places, static_cast<const int32_t*>(starts), n, d});
        };
        long_indices ? of_indices(static_cast<const int64_t*>(indices)) : of_indices(static_cast<const int32_t*>(indices));
    };
    dtype == FLOAT64 ? of_values(static_cast<const double*>(data)) : of_values(static_cast<const float*>(data));
}

}  // namespace
}  // namespace lwcs

using namespace lwcs;

#define LWCS_CSR                                                                                             \
    int32_t dtype, int32_t long_indices, int32_t long_starts, const void *data, const void *indices,         \
        const void *starts, int64_t n, int64_t d
#define LWCS_CSR_ARGUMENTS dtype, long_indices, long_starts, data, indices, starts, n, d

LWCS_API int32_t lwcs_scan_sparse(LWCS_CSR, const double* weights, const double* columns, const double* precision,
                                  double rest, double coarse, double* shift, double* cost, double* out) {
    return guarded([&] {
        const Pivot around{columns, precision, rest, coarse};
        with_csr(LWCS_CSR_ARGUMENTS, [&](const auto& rows) { *cost = scan(rows, weights, around, shift, out); });
    });
}

LWCS_API int32_t lwcs_distances_sparse(LWCS_CSR, const double* columns, const double* precision, double rest,
                                       double coarse, double* out) {
    return guarded([&] {
        const Pivot around{columns, precision, rest, coarse};
        with_csr(LWCS_CSR_ARGUMENTS, [&](const auto& rows) {
            for (int64_t i = 0; i < n; ++i) out[i] = distance(rows, i, around);
        });
    });
}

LWCS_API int32_t lwcs_hit_rows_sparse(LWCS_CSR, const double* weights, const double* columns,
                                      const double* precision, double rest, double coarse,
                                      const double* mean_columns, double mean_rest, double mean_coarse,
                                      double factor, double floor, int64_t n_runs, const int64_t* run_starts,
                                      const int64_t* run_stops, const double* targets, int64_t* hits,
                                      double* bounds, double* distances) {
    return guarded([&] {
        const Pivot around{columns, precision, rest, coarse};
        const Pivot mean{mean_columns, precision, mean_rest, mean_coarse};
        with_csr(LWCS_CSR_ARGUMENTS, [&](const auto& rows) {
            for (int64_t k = 0; k < n_runs; ++k) {
                double running = 0.0;
                for (int64_t i = run_starts[k]; i < run_stops[k]; ++i) {
                    const double bound = factor * distance(rows, i, around) + floor;
                    const double mass = weights ? weights[i] * bound : bound;
                    if (mass > 0.0 || i == run_starts[k]) {
                        hits[k] = i;
                        bounds[k] = bound;
                    }
                    running += mass;
                    if (running > targets[k]) break;
                }
                distances[k] = distance(rows, hits[k], mean);
            }
        });
    });
}

LWCS_API int32_t lwcs_moments_sparse(LWCS_CSR, const double* weights, double* weight, double* mean,
                                     double* scatter) {
    return guarded([&] {
        with_csr(LWCS_CSR_ARGUMENTS, [&](const auto& rows) { *weight = moments(rows, weights, mean, scatter); });
    });
}

LWCS_API int32_t lwcs_cluster_sums_sparse(LWCS_CSR, const double* weights, const int64_t* labels,
                                          const uint8_t* wanted, const double* around, int64_t k,
                                          double* totals, double* sums, void* team) {
    return guarded([&] {
        with_csr(LWCS_CSR_ARGUMENTS, [&](const auto& rows) {
            cluster_sums(rows, weights, labels, wanted, around, k, totals, sums, team);
        });
    });
}

LWCS_API int32_t lwcs_best_scores_sparse(LWCS_CSR, const double* matrix, const double* offsets, int64_t k,
                                         int64_t* labels, double* best, double* second) {
    return guarded([&] {
        with_csr(LWCS_CSR_ARGUMENTS,
                 [&](const auto& rows) { best_scores(rows, matrix, offsets, k, labels, best, second); });
    });
}
