"""The three errors of our own, and the end of messages about names that are not known; all other
errors are ValueError or TypeError.
"""

from __future__ import annotations

from collections.abc import Iterable


class ModelError(ValueError):
    """A robot description that cannot be used: says which file, line and element, and why.

    The message is one printable line, whatever stands in the file.

    Examples:
        >>> fl.load("<robot name='x'><link name='a'/><link name='b'/></robot>")
        Traceback (most recent call last):
            ...
        featherlane.errors.ModelError: <text>, line 1: link 'b': the robot has ...
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class CompileError(RuntimeError):
    """A graph that no backend can turn into code, or an illegal graph found between two passes.

    Examples:
        >>> b = fl.ModelBuilder("cart")
        >>> b.link("rail")
        >>> b.link("cart", mass=2.0)
        >>> b.joint("slide", "prismatic", "rail", "cart")
        >>> fl.accelerator(b.build(), "mass_matrix")
        Traceback (most recent call last):
            ...
        featherlane.errors.CompileError: mass_matrix of cart is constant: there ...
    """


class DeviceError(RuntimeError):
    """A GPU that cannot be used: its driver is missing or reports an error. The CPU still works.

    Examples:
        >>> arm.function("inverse_dynamics", device="cuda:99")(q, v, a)
        Traceback (most recent call last):
            ...
        featherlane.errors.DeviceError: ...
    """


LONGEST = 60  # characters of a value in a message


def shown(value: object) -> str:
    """A value in a message: one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of more than 4,300 digits, and what users' classes raise
        return f"of type {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """The end of a message: the known words that are close to a wrong one, or nothing."""
    from difflib import get_close_matches  # slow to import

    close = " or ".join(map(repr, get_close_matches(word, words, 2)))
    return f"; did you mean {close}?" if close else ""


def instead(word: str, words: Iterable[str]) -> str:
    """The end of a message: the known words that are close to a wrong one, or all of them."""
    words = list(words)
    return did_you_mean(word, words) or f"; wanted one of {', '.join(words)}"
