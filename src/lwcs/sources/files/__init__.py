"""Rows in files: Parquet, Feather, CSV, arrays."""
