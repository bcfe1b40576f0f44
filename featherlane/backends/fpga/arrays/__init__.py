"""Kernels that give each other values at cycles that are known: arrays of a robot as one design."""
