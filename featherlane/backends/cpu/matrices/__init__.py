"""Matrices of robots with many links, as products and sweeps over tiles."""
