"""
Training the lists of a vector index
====================================

An inverted-file index puts every vector into the list of its nearest center,
and searches only the ``nprobe`` lists nearest to a query. The centers, the
*coarse quantiser*, come from k-means. Are centers from a coreset as good as
those that faiss trains?
"""

import os
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from sklearn.neighbors import NearestNeighbors

import lwcs

# %%
# The vectors
# -----------
#
# 100,000 word vectors of 100 dimensions (GloVe), if the environment variable
# ``LWCS_DATA`` names a folder that has them. Otherwise vectors with heavy
# tails are made. 500 vectors are the queries.


def made_vectors():
    """40,000 vectors in groups of very unequal size, with heavy tails."""
    rng = np.random.default_rng(0)
    group = rng.choice(300, 40_000, p=rng.dirichlet(np.full(300, 0.5)))
    tails = np.sqrt(rng.chisquare(3, (40_000, 1)) / 3)
    places = rng.normal(size=(300, 24))
    vectors = places[group] + rng.normal(size=(40_000, 24)) / tails
    return vectors.astype(np.float32)


path = Path(os.environ.get("LWCS_DATA", ".")) / "glove6b_100d_100k.parquet"
if path.exists():
    table = pq.read_table(path)
    vectors = np.column_stack([table[f"x{i}"] for i in range(100)])
else:
    print(f"no {path.name} in the folder LWCS_DATA: these are made")
    vectors = made_vectors()
vectors = np.random.default_rng(0).permutation(vectors)
queries, base = vectors[:500], np.ascontiguousarray(vectors[500:])
brute = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(base)
true = brute.kneighbors(queries, return_distance=False)
print(f"{len(base):,} vectors of {base.shape[1]} dimensions")

# %%
# Training
# --------
#
# 256 lists: by a coreset of 100 draws per list; by faiss, which trains on up
# to 256 uniform draws per list; and by 256 random vectors, without any
# training.

LISTS, D = 256, base.shape[1]
start = perf_counter()
model = lwcs.CoresetKMeans(
    LISTS, coreset_size=100 * LISTS, compute_labels=False, random_state=0
)
centers = {"lwcs": model.fit(base).cluster_centers_}
seconds = {"lwcs": perf_counter() - start, "random vectors": 0.0}
if find_spec("faiss"):
    import faiss

    start = perf_counter()
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(D), D, LISTS)
    index.train(base)
    seconds["faiss"] = perf_counter() - start
    trained = faiss.downcast_index(index.quantizer)
    centers["faiss"] = trained.reconstruct_n(0, LISTS)
else:
    print("faiss is not installed: its training is left out")
centers["random vectors"] = base[:LISTS]

everything = lwcs.Coreset.from_arrays(base, np.ones(len(base)))
for name, own in centers.items():
    cost = everything.cost(own) / len(base)
    print(f"{name:15} {seconds[name]:5.2f} s   cost per vector {cost:7.3f}")

# %%
# Recall
# ------
#
# ``recall@10`` is the share of the ten true neighbours that a search finds. An
# index that keeps whole vectors finds a neighbour if, and only if, its list
# is searched, so this can be computed without an index. Lists have unequal
# sizes; therefore the picture on the right counts vectors instead of lists.

PROBES = [1, 2, 4, 8, 16, 32]


def searched(own):
    """Recall, and the share of the vectors that is searched, by nprobe."""
    coarse = NearestNeighbors(n_neighbors=32, algorithm="brute").fit(own)
    home = coarse.kneighbors(base, 1, return_distance=False)[:, 0]
    lists = coarse.kneighbors(queries, return_distance=False)
    sizes = np.bincount(home, minlength=LISTS) / len(base)
    hit = home[true][:, :, None] == lists[:, None, :]
    recall = [hit[:, :, :n].any(axis=2).mean() for n in PROBES]
    return recall, [sizes[lists[:, :n]].sum(axis=1).mean() for n in PROBES]


figure, axes = plt.subplots(
    1, 2, figsize=(8.2, 3.8), layout="constrained", sharey=True
)
styles = {"lwcs": "o-", "faiss": "s--", "random vectors": "^:"}
colours = {"lwcs": "#0072B2", "faiss": "#D55E00", "random vectors": "#777777"}
for name, own in centers.items():
    recall, work = searched(own)
    axes[0].plot(PROBES, recall, styles[name], color=colours[name], label=name)
    axes[1].plot(work, recall, styles[name], color=colours[name])
    print(f"{name:15} recall by nprobe:", *(f"{value:.2f}" for value in recall))
axes[0].set(xscale="log", xlabel="nprobe: lists searched", ylabel="recall@10")
axes[0].set_xticks(PROBES, PROBES)
axes[0].legend(frameon=False)
axes[1].set(xscale="log", xlabel="vectors searched")
axes[1].set_xticks([0.01, 0.03, 0.1, 0.3], ["1 %", "3 %", "10 %", "30 %"])
for ax in axes:
    ax.minorticks_off()
    ax.grid(alpha=0.3)
plt.show()

# %%
# In the index
# ------------
#
# faiss takes centers from elsewhere: a quantiser that has as many as there
# are lists is not trained again.

if find_spec("faiss"):
    quantiser = faiss.IndexFlatL2(D)
    quantiser.add(centers["lwcs"])
    index = faiss.IndexIVFFlat(quantiser, D, LISTS)
    index.train(base)
    index.add(base)
    index.nprobe = 8
    found = index.search(queries, 10)[1]
    hits = [np.isin(*pair).mean() for pair in zip(found, true, strict=True)]
    print(f"recall@10 of the index, nprobe = 8: {np.mean(hits):.2f}")

# %%
# For word vectors, the answer is yes: the recall is the same. Their rows are
# alike, so the uniform draws of faiss serve as well. A coreset pays where a
# uniform draw misses rows that matter, where the vectors do not fit into
# memory, or where they arrive as a stream.
