"""Ratios against peers and limits, each measured in one run."""
