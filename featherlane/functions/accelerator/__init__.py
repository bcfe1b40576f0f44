"""Robots joined with circuits: one design that computes several functions of a robot."""
