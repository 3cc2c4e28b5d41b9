"""What the clusters are, on points in memory or block by block."""
