"""Solvers: the clusters of weighted points in memory, by k-means, and mixtures, by EM."""
