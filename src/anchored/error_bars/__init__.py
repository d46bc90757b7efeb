"""Noise, calibration, folds and health of a fit: what makes error bars hold."""
