"""Straight-line kernels: each lane of a vector computes another state."""
