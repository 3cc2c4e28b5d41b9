"""What users ask after a fit: what centers cost, whether they are still good, how many to have."""
