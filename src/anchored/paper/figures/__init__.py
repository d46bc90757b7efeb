"""Figures of the paper, one module each."""
