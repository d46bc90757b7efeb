"""Noise, calibration, folds and health of a fit."""
