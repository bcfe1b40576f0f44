"""Attacks on the package by cases with seeds; see log.md for what was run and found.

`python -m tests.attack PART --seed N --count N` runs the cases N to N + count - 1 of a part.
"""
