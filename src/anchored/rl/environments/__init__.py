"""Environments written in JAX, so that whole trials are compiled, and their Gymnasium shells."""
