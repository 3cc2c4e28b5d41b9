"""
Drift of a model over the months
================================

A model was fitted in January. Is it still good in June? `lwcs.drift` compares
new rows with what the model remembers of its own: the cost per row, and the
share of every cluster. An alarm means that they differ by more than chance.
"""

from calendar import month_abbr

import matplotlib.pyplot as plt
import numpy as np

import lwcs

COLOURS = np.array(["#0072B2", "#E69F00", "#009E73", "#D55E00"])
MONTHS = list(month_abbr)[1:]

# %%
# A year of customers
# -------------------
#
# Four groups of customers, by two numbers. Until April, nothing changes. From
# May to September, one group loses members to another, month by month. In
# September, a fifth group appears.

PLACES = np.array([[0, 0], [7, 1], [2, 7], [8, 8], [14, 4]])


def month(number):
    """6,000 rows of a month; 0 is January."""
    rng = np.random.default_rng(number)
    moved = 0.025 * np.clip(number - 3, 0, 5)
    arrived = 0.06 if number >= 8 else 0.0
    shares = [0.4 - moved - arrived, 0.25, 0.2 + moved, 0.15, arrived]
    group = rng.choice(5, size=6_000, p=shares)
    return PLACES[group] + rng.normal(size=(6_000, 2))


model = lwcs.CoresetKMeans(4, random_state=0).fit(month(0))
found = [lwcs.drift(model, month(i), random_state=0) for i in range(1, 12)]
for name, drift in zip(MONTHS[1:], found, strict=True):
    print(name, "ALARM" if drift.drifted else "-")

# %%
# An alarm comes with its reasons. This is the first one:

next(drift for drift in found if drift.drifted)

# %%
# A year of checks
# ----------------
#
# The shares of the clusters give the first alarm: the centers of January
# still fit, but the groups have other sizes. In September, the cost per row
# rises, and a fresh model with as many clusters would be clearly better than
# the old one. Months with an alarm are shaded.

figure, (cost, shares) = plt.subplots(
    2, 1, figsize=(8, 6), layout="constrained", sharex=True
)


def band(name, colour, label):
    """Plot estimates with their intervals."""
    low, value, high = (
        [getattr(getattr(drift, name), end) for drift in found]
        for end in ("low", "value", "high")
    )
    cost.fill_between(range(1, 12), low, high, color=colour, alpha=0.2)
    cost.plot(range(1, 12), value, "o-", color=colour, label=label)


band("now", COLOURS[0], "model of January")
band("fresh", COLOURS[1], "fresh model, also with four clusters")
cost.set(ylabel="cost per row", ylim=0)
cost.legend(frameon=False, loc="upper left")
for j, colour in enumerate(COLOURS):
    own = [drift.shares[j] for drift in found]
    values = [own[0].then, *(share.now for share in own)]
    shares.plot(values, "o-", color=colour, label=f"cluster {j}")
shares.set(ylabel="share of the rows", ylim=0)
shares.yaxis.set_major_formatter("{x:.0%}")
shares.set_xticks(range(12), MONTHS)
shares.legend(frameon=False, loc="lower left", ncols=4)
for ax in (cost, shares):
    for i, drift in enumerate(found, start=1):
        if drift.drifted:
            ax.axvspan(i - 0.5, i + 0.5, color=COLOURS[3], alpha=0.1, lw=0)
    ax.grid(alpha=0.3)
plt.show()

# %%
# The rows behind it
# ------------------

figure, axes = plt.subplots(
    1, 3, figsize=(8.2, 3.1), layout="constrained", sharex=True, sharey=True
)
for ax, i in zip(axes, (0, 6, 9), strict=True):
    rows = month(i)
    ax.scatter(*rows.T, c=COLOURS[model.predict(rows)], s=3, linewidths=0)
    x, y = model.cluster_centers_.T
    ax.scatter(x, y, marker="X", s=80, color="white", edgecolors="black")
    ax.set_title(MONTHS[i], fontsize=10)
plt.show()

# %%
# After the alarm
# ---------------
#
# The customers of the fifth group count as members of another one until a
# model is fitted with five clusters. With such a model of September, there
# are no more alarms, since nothing else changes:

refitted = lwcs.CoresetKMeans(5, random_state=0).fit(month(8))
for i in (9, 10, 11):
    drift = lwcs.drift(refitted, month(i), random_state=0)
    print(MONTHS[i], "ALARM" if drift.drifted else "-")
