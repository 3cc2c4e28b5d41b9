"""
Colour quantisation: a photo in 16 colours
==========================================

A photo of 427 × 640 pixels is a table of 273,280 rows with three columns:
red, green and blue. The centers of 16 clusters are a palette, and every pixel
takes the colour of its center. Does it take all pixels to find a good
palette?
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image

import lwcs

photo = load_sample_image("china.jpg")
pixels = np.asarray(photo.reshape(-1, 3), dtype=np.float32) / 255
different = len(np.unique(pixels, axis=0))
print(f"{len(pixels):,} pixels, {different:,} different colours")

# %%
# Four palettes
# -------------
#
# Scikit-learn clusters all pixels. Two models cluster 2,000 of them: one a
# uniform sample, the other a lightweight coreset, which prefers pixels that
# are far from the mean colour, and weights them accordingly. The last model
# is `lwcs.CoresetKMeans` with its defaults, which chooses the method and the
# number of draws itself. All times include the labels of all pixels.

K = 16
models = {
    "all pixels (scikit-learn)": KMeans(K, n_init=1, random_state=0),
    "uniform sample of 2,000": lwcs.CoresetKMeans(
        K, coreset_size=2_000, method="uniform", random_state=0
    ),
    "lightweight coreset of 2,000": lwcs.CoresetKMeans(
        K, coreset_size=2_000, method="lightweight", random_state=0
    ),
    "CoresetKMeans, defaults": lwcs.CoresetKMeans(K, random_state=0),
}
costs, seconds = {}, {}
for name, model in models.items():
    start = perf_counter()
    model.fit(pixels)
    seconds[name] = perf_counter() - start
    costs[name] = model.inertia_
    print(f"{name:30} cost {costs[name]:6.1f}   {seconds[name]:5.2f} s")

# %%
# The photo in each palette
# -------------------------
#
# The cost is the sum of the squared colour errors. Percentages compare it
# with that of all pixels.

full = costs["all pixels (scikit-learn)"]
figure, axes = plt.subplots(2, 2, figsize=(8, 6.2), layout="constrained")
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    palette = model.cluster_centers_.clip(0, 1)
    ax.imshow(palette[model.labels_].reshape(photo.shape))
    note = f"cost {costs[name]:.0f} ({costs[name] / full - 1:+.1%})"
    ax.set_title(f"{name}\n{note}, {seconds[name]:.2f} s", fontsize=10)
    ax.axis("off")
plt.show()

# %%
# The palettes themselves, from dark to light. The width of a colour is its
# share of the pixels:

figure, axes = plt.subplots(4, 1, figsize=(8, 3.6), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    palette = model.cluster_centers_.clip(0, 1)
    order = np.argsort(palette.sum(axis=1))
    shares = np.bincount(model.labels_, minlength=K)[order] / len(pixels)
    left = np.cumsum(shares) - shares
    ax.barh(0, shares, left=left, color=palette[order], height=1.0)
    ax.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    ax.set_title(name, fontsize=10, loc="left")
    ax.axis("off")
plt.show()

# %%
# Which method does this photo need?
# ----------------------------------
#
# No pixel is far away from all others: colours fill a cube from black to
# white. For such data, a uniform sample is at least as good as a lightweight
# coreset of the same size, and the model says so: ``diagnosis_`` has the
# error that is expected of each method with as many draws.

diagnosis = models["lightweight coreset of 2,000"].diagnosis_
for method, error in diagnosis.errors.items():
    print(f"{method:12} {error:.1%}")

# %%
# That is known only after a look at the data.
# :ref:`sphx_glr_auto_gallery_plot_heavy_tails.py` shows data for which a
# uniform sample fails.
