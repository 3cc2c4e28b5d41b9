"""
Spoken digits by the Itakura–Saito divergence
=============================================

The power of a sound in frequency bands ranges over many decades. Squared
distances see little but the loudest frames. The Itakura–Saito divergence
compares ratios: between two quiet spectra it is as large as between the same
two, spoken a hundred times louder.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import lwcs

# sphinx_gallery_thumbnail_number = 2

ORANGE, BLUE = "#E69F00", "#0072B2"

# %%
# The frames
# ----------
#
# One row is the power in 40 mel bands during a few hundredths of a second,
# from recordings of the digits 0 to 9 (the Free Spoken Digit Dataset), if the
# environment variable ``LWCS_DATA`` names a folder that has it. Otherwise
# frames are made: each digit is a sequence of four sounds out of twelve, each
# with its own two peaks, at any loudness.


def made_frames(n=30_000):
    """Frames with peaks in two bands, and the digits that they are part of."""
    rng = np.random.default_rng(0)
    peaks = rng.uniform(2, 38, (12, 2, 1))
    heights = np.exp(-(((np.arange(40) - peaks) / 3.0) ** 2)).sum(axis=1)
    sounds = np.stack([rng.permutation(12)[:4] for _ in range(10)])
    digit = rng.integers(10, size=n)
    sound = sounds[digit, rng.integers(4, size=n)]
    decades = 3.5 * heights[sound] + rng.normal(-6.0, 1.0, (n, 1))
    return 10.0**decades * rng.gamma(4.0, 0.25, (n, 40)), digit


path = Path(os.environ.get("LWCS_DATA", ".")) / "fsdd_mel40.parquet"
if path.exists():
    table = pq.read_table(path)
    power = np.column_stack([table[f"mel{band}"] for band in range(40)])
    digit = table["digit"].to_numpy()
else:
    print(f"no {path.name} in the folder LWCS_DATA: these frames are made")
    power, digit = made_frames()
quiet, loud = np.quantile(power, [0.001, 0.999])
print(f"{len(power):,} frames, most values from {quiet:.0e} to {loud:.0e}")

# %%
# Sixteen sounds
# --------------
#
# The same estimator, with another divergence. By squared distances, most
# frames are in one cluster, that of all that is not loud.

fits = {
    name: lwcs.CoresetKMeans(16, divergence=name, random_state=0).fit(power)
    for name in ("sqeuclidean", "itakura_saito")
}
figure, axes = plt.subplots(
    1, 2, figsize=(8.4, 3), layout="constrained", sharey=True
)
for ax, (name, fit), colour in zip(
    axes, fits.items(), (ORANGE, BLUE), strict=True
):
    sizes = np.sort(np.bincount(fit.labels_, minlength=16))[::-1] / len(power)
    ax.bar(range(1, 17), sizes, color=colour)
    ax.set_title(f"{name}: the largest has {sizes[0]:.0%}", fontsize=10)
    ax.set(xlabel="cluster, by size", xticks=[1, 4, 8, 12, 16])
axes[0].set_ylabel("share of the frames")
axes[0].yaxis.set_major_formatter("{x:.0%}")
plt.show()

# %%
# The spectra of the clusters
# ---------------------------
#
# A center is the weighted mean of its frames, for this divergence as for
# squared distances. In decibels, relative to its mean, every row of the
# picture is the shape of one sound.

model = fits["itakura_saito"]
decibels = 10 * np.log10(model.cluster_centers_)
shape = decibels - decibels.mean(axis=1, keepdims=True)
order = np.argsort(shape.argmax(axis=1))
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
image = ax.imshow(shape[order], cmap="magma", aspect="auto")
ax.set(xlabel="mel band, from low to high", ylabel="cluster", yticks=range(16))
figure.colorbar(image, label="power against its mean, dB")
plt.show()

# %%
# Digits by their sounds
# ----------------------
#
# How often each digit uses each sound, against how often it occurs in all
# digits. No digit was known to the model.

use = np.stack(
    [np.bincount(model.labels_[digit == d], minlength=16) for d in range(10)]
)
use = use / use.sum(axis=1, keepdims=True)
overall = np.bincount(model.labels_, minlength=16) / len(power)
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ratio = np.log2(np.maximum(use / overall, 1 / 8))[:, order]
image = ax.imshow(ratio, cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
ax.set(xlabel="cluster", ylabel="digit", yticks=range(10), xticks=range(16))
bar = figure.colorbar(image, ticks=range(-3, 4))
bar.ax.set_yticklabels(["1/8", "1/4", "1/2", "1", "2", "4", "8"])
bar.set_label("use of the sound, times the average")
plt.show()
