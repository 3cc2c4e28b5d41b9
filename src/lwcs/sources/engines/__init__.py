"""Rows on a cluster: Dask, Spark and Ray."""
