"""
How many clusters are there?
============================

`lwcs.choose_k` tries many numbers of clusters on one coreset. It recommends
the largest number whose clusters are all real: the data has a valley between
every two neighbours, and every cluster is found again in other samples. It
also says how often it would have chosen another one from other draws.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import lwcs

# %%
# Eight groups of unequal size and width
# --------------------------------------

rng = np.random.default_rng(5)
places = 3.0 * np.array(
    [[-3, 2], [-1, 2.5], [2, 3], [3, 1], [-2, -1], [0, 0], [2, -2], [-3, -3]]
)
sizes = rng.integers(3_000, 15_000, 8)
widths = np.repeat(rng.uniform(0.5, 1.1, 8), sizes)
X = np.repeat(places, sizes, axis=0)
X = rng.permutation(X + widths[:, None] * rng.normal(size=X.shape))
choice = lwcs.choose_k(X, range(2, 14), random_state=0)
choice

# %%
# The cost falls with every cluster, and has no minimum. What ends at eight
# are the valleys: with nine clusters, one group is cut in two.

lwcs.ElbowDisplay.from_choice(choice)
plt.show()

# %%
# ``choice.model(k)`` is a fitted `lwcs.CoresetKMeans` for every k that was
# tried:

figure, axes = plt.subplots(
    1, 3, figsize=(8.2, 3.2), layout="constrained", sharex=True, sharey=True
)
for ax, k in zip(axes, (5, choice.k, 12), strict=True):
    model, rows = choice.model(k), X[:6_000]
    ax.scatter(*rows.T, c=model.predict(rows), cmap="tab20", s=3, linewidths=0)
    x, y = model.cluster_centers_.T
    ax.scatter(x, y, marker="X", s=70, color="white", edgecolors="black")
    ax.set_title(f"k = {k}" + ", recommended" * (k == choice.k), fontsize=10)
    ax.set_aspect("equal")
plt.show()

# %%
# No groups
# ---------
#
# k-means cuts any data into as many pieces as it is asked for. For points
# that fill a square evenly, no number of clusters is recommended:

noise = rng.uniform(size=(20_000, 2))
none = lwcs.choose_k(noise, range(2, 10), random_state=0)
print("recommended:", none.k)

figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.8), layout="constrained")
for ax, k in zip(axes, (4, 9), strict=True):
    labels = none.model(k).predict(noise)
    ax.scatter(*noise.T, c=labels, cmap="tab10", s=2, linewidths=0)
    ax.set_title(f"k = {k}: cells, not clusters", fontsize=10)
    ax.set_aspect("equal")
plt.show()

# %%
# Iris: three species, two clusters
# ---------------------------------
#
# The recommendation is about valleys in the data, not about what the rows are
# called. Two of the three species of iris overlap, so the four measurements
# alone show two groups:

iris = load_iris()
found = lwcs.choose_k(iris.data, range(2, 9), random_state=0)
print("recommended:", found.k)
labels = found.model().predict(iris.data)
for label in range(found.k):
    flowers = np.bincount(iris.target[labels == label], minlength=3)
    named = zip(flowers, iris.target_names, strict=True)
    print(f"cluster {label}:", ", ".join(f"{n} {name}" for n, name in named))
