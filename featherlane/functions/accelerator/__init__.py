"""Accelerators that are organised by the structure of a robot."""
