"""
Topics of documents by the Kullback–Leibler divergence
======================================================

A document is a row of word counts, and nearly all of them are zero. Squared
distances between such rows say more about the length of the documents than
about their subject. The Kullback–Leibler (KL) divergence compares which
*shares* of its words a document spends on what, and the center of a cluster
is a distribution over words: a topic.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score

import lwcs

# %%
# The documents
# -------------
#
# 20 Newsgroups, if the environment variable ``LWCS_DATA`` names a folder with
# its word counts. Otherwise a small corpus is made: six topics with words of
# their own, mixed with words that occur everywhere.

MADE = {
    "space": "orbit launch shuttle moon satellite rocket mission mars",
    "hockey": "game team season goal coach puck league player",
    "medicine": "patient doctor disease treatment drug dose clinic pain",
    "cars": "engine dealer brake mileage tire clutch driver road",
    "graphics": "image pixel render polygon format screen driver texture",
    "politics": "vote senate law court president tax policy congress",
}
COMMON = "people time think good know work year make want need thing day"


def made_corpus():
    """4,000 documents of 20 to 200 words; three of four words are common."""
    rng = np.random.default_rng(0)
    words = np.unique(" ".join([*MADE.values(), COMMON]).split())
    chances = np.zeros((len(MADE), len(words)))
    for row, own in zip(chances, MADE.values(), strict=True):
        row[np.isin(words, own.split())] = 0.25 * rng.dirichlet(np.full(8, 3))
        row[np.isin(words, COMMON.split())] = 0.75 / len(COMMON.split())
    topic = rng.integers(len(MADE), size=4_000)
    lengths = rng.integers(20, 200, size=4_000)
    counts = sp.csr_array(rng.multinomial(lengths, chances[topic]))
    return counts, np.array(list(MADE))[topic], words


def newsgroups(folder):
    """Counts of the 2,000 most frequent words that are not everywhere."""
    counts = sp.csr_array(sp.load_npz(folder / "news20_counts_csr.npz"))
    documents = pq.read_table(folder / "news20_docs.parquet").to_pandas()
    vocabulary = pq.read_table(folder / "news20_vocab.parquet").to_pandas()
    posts = np.bincount(counts.indices, minlength=counts.shape[1])
    posts[posts > counts.shape[0] / 10] = 0
    kept = np.argsort(-posts, kind="stable")[:2_000]
    counts = counts[:, kept]
    some = counts.sum(axis=1) > 0
    words = vocabulary["term"].to_numpy(dtype=str)[kept]
    return counts[some], documents["group"].to_numpy(dtype=str)[some], words


folder = Path(os.environ.get("LWCS_DATA", "."))
if (folder / "news20_counts_csr.npz").exists():
    counts, group, words = newsgroups(folder)
else:
    print("no 20 Newsgroups in the folder LWCS_DATA: this corpus is made")
    counts, group, words = made_corpus()
names = np.unique(group)
K = len(names)
n_documents, n_words = counts.shape
print(f"{n_documents:,} documents, {n_words:,} words, {K} groups")

# %%
# Clusters
# --------
#
# ``"kl_simplex"`` turns every row into shares first, so that a long document
# counts as much as a short one. It is compared with k-means on the counts,
# and with directions (``"cosine"``) of tf-idf, which weights a word by how
# rare it is. The names of the groups are used only to check the result: 1 is
# perfect agreement, and 0 is chance.

tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
fits = {
    "KL of shares": ("kl_simplex", counts, "auto"),
    "KL of shares, coreset": ("kl_simplex", counts, n_documents // 4),
    "k-means of counts": ("sqeuclidean", counts, "auto"),
    "cosine of tf-idf": ("cosine", tfidf, "auto"),
}
models = {}
for name, (divergence, rows, size) in fits.items():
    model = lwcs.CoresetKMeans(
        K, divergence=divergence, coreset_size=size, random_state=0
    )
    models[name] = model.fit(rows)
    agreement = normalized_mutual_info_score(group, model.labels_)
    print(f"{name:22} {agreement:.2f}   ({len(model.coreset_):,} documents)")

# %%
# With so few documents, all of them are clustered unless you say otherwise. A
# coreset of a quarter of them finds the topics of a small vocabulary; with
# thousands of words, it loses more than coresets of other data do, since a
# center has a share for every word, and few documents do not tell them all.
#
# The words of a topic
# --------------------
#
# The words that tell a topic apart are those with the largest part in its
# divergence from the mean of all documents: c·ln(c/m), for a share c in the
# center and m in the mean.

model = models["KL of shares"]
centers = model.cluster_centers_
sizes = np.bincount(model.labels_, minlength=K)
mean = sizes @ centers / sizes.sum()
telling = centers * np.log(centers / mean)

figure, axes = plt.subplots(2, 3, figsize=(8.2, 5.2), layout="constrained")
for ax, j in zip(axes.flat, np.argsort(-sizes), strict=False):
    top = np.argsort(-telling[j])[:8][::-1]
    ax.barh(words[top], 100 * centers[j, top], color="#0072B2")
    ax.set_title(f"{sizes[j]:,} documents", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
figure.supxlabel("share of the words of the cluster, %", fontsize=10)
plt.show()

# %%
# Topics and groups
# -----------------
#
# Every row is a group, and shows to which clusters its documents belong.

table = np.zeros((K, K))
np.add.at(table, (np.searchsorted(names, group), model.labels_), 1)
parts = 100 * table / table.sum(axis=1, keepdims=True)
order = np.argsort(parts.argmax(axis=0), kind="stable")
figure, ax = plt.subplots(figsize=(8, 1.6 + 0.22 * K), layout="constrained")
image = ax.imshow(parts[:, order], cmap="Blues", vmin=0, aspect="auto")
ax.set_yticks(range(K), names)
ax.set_xticks([])
ax.set_xlabel("clusters")
figure.colorbar(image, label="documents of the group, %")
plt.show()
