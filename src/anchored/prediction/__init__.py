"""Predictive distributions, in NumPy: what every method returns, and how members are pooled."""
