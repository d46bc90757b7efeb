"""Environments: in pure JAX, with a Gymnasium shell, and the robot arm of the paper."""
