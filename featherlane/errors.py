"""The two errors of our own; everything else is a ValueError or TypeError that names the
argument.
"""


class ModelError(ValueError):
    """A robot description that cannot be used: says which file, line and element, and why."""


class CompileError(RuntimeError):
    """A graph that no backend can turn into code, or an illegal graph found between two passes."""
