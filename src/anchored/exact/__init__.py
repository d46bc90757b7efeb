"""Exact references: kernels of infinite width, Gaussian processes, evidence, randomised MAP."""
