"""Rows in memory: arrays, sparse arrays, tables, tensors, partitions."""
