"""
Heavy tails: where a uniform sample fails
=========================================

In many tables, most rows are much alike, and a few are far away: large
orders, busy servers, rare proteins. These few rows can carry most of the cost
of a clustering, and a uniform sample does not contain them.
"""

import matplotlib.pyplot as plt
import numpy as np

import lwcs

COLOURS = {"uniform": "#E69F00", "lightweight": "#0072B2", "all": "#999999"}

# %%
# The data
# --------
#
# Eight groups in the plane. Each group is twice as far from the origin as the
# one before it, and has a quarter of its rows. So all of them contribute
# about as much to the total squared distance.

rng = np.random.default_rng(0)
sizes = [75_000, 18_750, 4_700, 1_170, 290, 73, 18, 5]
radii, angles = 3.0 * 2.0 ** np.arange(8), 2.4 * np.arange(8)
places = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
X = np.repeat(places, sizes, axis=0) + rng.normal(size=(sum(sizes), 2))
group = np.repeat(np.arange(8), sizes)
kurtosis = lwcs.theory.kurtosis(X)
print(f"{len(X):,} rows, kurtosis {kurtosis:.0f} (2 for a Gaussian)")

# %%
# What is drawn
# -------------
#
# Both methods draw 400 rows. A lightweight coreset draws half of them
# uniformly, and half in proportion to the squared distance from the mean.
# Weights make up for that, so that costs come out right on average.

draws = {
    method: lwcs.build(X, 400, method=method, random_state=0)
    for method in ("uniform", "lightweight")
}
for method, coreset in draws.items():
    drawn = np.bincount(group[coreset.indices], coreset.counts, minlength=8)
    print(f"{method:12} draws per group: {drawn.astype(int)}")


def panels():
    """Panels with all rows in grey; axes are logarithmic away from zero."""
    options = {"figsize": (8.2, 3.9), "layout": "constrained"}
    _, axes = plt.subplots(1, 2, sharex=True, sharey=True, **options)
    ticks, labels = [-100, -10, 0, 10, 100], ["−100", "−10", "0", "10", "100"]
    for ax in axes:
        ax.scatter(*X.T, s=4, color=COLOURS["all"], linewidths=0)
        ax.set_xscale("symlog", linthresh=10)
        ax.set_yscale("symlog", linthresh=10)
        ax.set_xticks(ticks, labels)
        ax.set_yticks(ticks, labels)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    return axes


for ax, (method, coreset) in zip(panels(), draws.items(), strict=True):
    area = 4 + 60 * coreset.weights / coreset.weights.max()
    ax.scatter(*coreset.points.T, s=area, color=COLOURS[method], linewidths=0)
    ax.set_title(f"{method}, {coreset.size} draws", fontsize=10)
plt.show()

# %%
# All rows are grey, and the area of a point is its weight. The uniform sample
# ends where the rare groups begin.
#
# `lwcs.CoresetDisplay` shows how that comes about. By distance from the mean,
# the draws of the lightweight coreset are spread over all groups, although
# nearly all rows are near; far rows are drawn often, with small weights.

lwcs.CoresetDisplay.from_coreset(draws["lightweight"])
plt.show()

# %%
# What it leads to
# ----------------
#
# Eight centers are fitted to each of the two samples, and to all rows:

fits = {
    method: lwcs.CoresetKMeans(8, random_state=0).fit(coreset)
    for method, coreset in draws.items()
}
everything = lwcs.CoresetKMeans(
    8, coreset_size=len(X), n_init=5, random_state=0
)
best = -everything.fit(X).score(X)
for ax, (method, fit) in zip(panels(), fits.items(), strict=True):
    cost = -fit.score(X) / best
    print(
        f"{method:12} cost of all rows: {cost:5.2f} × that of a fit to all rows"
    )
    ax.scatter(
        *fit.cluster_centers_.T, marker="X", s=110, color=COLOURS[method],
        edgecolors="black", zorder=3,
    )  # fmt: skip
    ax.set_title(f"centers from {method} draws: cost × {cost:.2f}", fontsize=10)
plt.show()

# %%
# More draws?
# -----------
#
# Five seeds for each method and size. A lightweight coreset gets better with
# every draw. A uniform sample is hardly better until it is so large that it
# contains the rare groups.

SIZES = [100, 400, 1_600, 6_400]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for method in ("uniform", "lightweight"):
    errors = np.empty((len(SIZES), 5))
    for (i, seed), _ in np.ndenumerate(errors):
        coreset = lwcs.build(X, SIZES[i], method=method, random_state=seed)
        fit = lwcs.CoresetKMeans(8, random_state=seed).fit(coreset)
        errors[i, seed] = -fit.score(X) / best - 1
    ax.plot(SIZES, errors, "o", color=COLOURS[method], alpha=0.4)
    ax.plot(
        SIZES, np.median(errors, axis=1), color=COLOURS[method], label=method
    )
ax.set(xscale="log", yscale="log", xlabel="draws", ylabel="error of the cost")
ax.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
ax.minorticks_off()
ax.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()

# %%
# `lwcs.compare` makes such a comparison for data of your own, and
# `lwcs.CoresetKMeans` chooses a method itself by default.
