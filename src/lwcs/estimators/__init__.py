"""Estimators with the scikit-learn API; that of k-means imports nothing of mixtures."""
