"""A fitted model as one record, its file, and predictions from it without JAX."""
