"""Tables with a log: Delta Lake, Iceberg, and datasets of pyarrow."""
