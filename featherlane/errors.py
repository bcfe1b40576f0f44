"""The two errors of our own; everything else is a ValueError or TypeError that names the
argument.
"""


class ModelError(ValueError):
    """A robot description that cannot be used: says which file, line and element, and why.

    The message is one printable line, whatever stands in the file.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class CompileError(RuntimeError):
    """A graph that no backend can turn into code, or an illegal graph found between two passes."""
