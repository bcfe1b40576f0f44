"""Featherstone algorithms, in lanes."""
