"""Straight-line kernels: each vector lane of a processor computes a state of its own."""
