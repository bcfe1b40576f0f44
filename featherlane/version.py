"""The version of the package: on the lowest floor, so that every file may import it."""

__version__ = "0.2.0"
