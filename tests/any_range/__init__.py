"""Labels, costs and fits at any range, against exact arithmetic."""
