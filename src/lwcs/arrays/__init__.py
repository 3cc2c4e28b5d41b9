"""Rows, dense or sparse, on the host or on a device; their types and the checks of them."""
