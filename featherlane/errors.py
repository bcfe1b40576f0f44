"""The package's three classes of errors, and the ends of messages about unknown names; all other
errors are ValueError or TypeError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import FrozenInstanceError
from itertools import islice

from featherlane.field_names import (
    CALLS,
    KEYWORDS,
    NOT_NEEDED,
    OF_MODULE,
    folded,
    meaning,
    meanings,
    name_of,
)


class ModelError(ValueError):
    """A robot description cannot be used. The message names the file, line and element, and says
    why.

    The message is one printable line, whatever the file contains.

    Examples:
        >>> fl.load("<robot name='x'><link name='a'/><link name='b'/></robot>")
        Traceback (most recent call last):
            ...
        featherlane.errors.ModelError: <text>, line 1: link 'b': the robot has ...
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class CompileError(RuntimeError):
    """A graph cannot be compiled by the backend, or is illegal after a pass.

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
    """A GPU cannot be used: its driver is missing or reports an error. The CPU still works.

    Examples:
        >>> arm.function("inverse_dynamics", device="cuda:99")(q, v, a)
        Traceback (most recent call last):
            ...
        featherlane.errors.DeviceError: ...
    """


LONGEST = 60  # characters of a value in a message
COMPARED = 1000  # words that a wrong one is compared with, so that no file makes it slow


def shown(value: object) -> str:
    """A value in a message: one line, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of more than 4,300 digits, and errors of users' classes
        return f"of type {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def clause(error: BaseException) -> str:
    """The text of another package's error as a clause of a message: one line, no period."""
    return " ".join(str(error).split()).rstrip(".")


def wrong_dtype(name: str, value: object, dtype: object) -> str:
    """The message about an input that is no array of real numbers."""
    came = f"is {shown(value)}" if value is None or isinstance(value, str) else f"has dtype {dtype}"
    return f"{name} {came}: wanted real numbers, float32 or float64"


def wrong_shape(name: str, shape: tuple[int, ...], core: tuple[int, ...], hint: str) -> str:
    """The message about an input whose last dimensions are not those of one state. hint: the likely
    confusion, if there is one.
    """
    wanted = ", ".join(["...", *map(str, core)])
    return f"{name} has shape {shape}, wanted ({wanted}){hint and ': ' + hint}"


def turned(name: str) -> str:
    """The hint about an array of states that is transposed."""
    return f"states go in rows, pass {name}.T"


def nearest(word: object, words: Iterable[str], most: int = 2, least: float = 0.6) -> list[str]:
    """The known words that a wrong one was probably meant for: the word that the field calls so
    (see `field_names`), or the words of similar spelling, with a ratio of common letters of `least`
    or more. Both ignore case, hyphens and underscores.
    """
    from difflib import get_close_matches  # slow to import

    text, words = str(word)[:LONGEST], [x for x in islice(words, COMPARED) if len(x) <= LONGEST]
    if meant := meaning(text, words):
        return [meant]
    by_letters = {folded(other): other for other in reversed(words)}
    close = get_close_matches(folded(text), by_letters, most, least)
    return [by_letters[letters] for letters in close]


def did_you_mean(word: object, words: Iterable[str]) -> str:
    """The end of a message: the known words that are close to a wrong one, or nothing."""
    close = " or ".join(map(repr, nearest(word, words)))
    return f"; did you mean {close}?" if close else ""


def instead(word: object, words: Iterable[str]) -> str:
    """The end of a message: the known word that the field calls so, the words that are close to a
    wrong one, or all of them.
    """
    words = list(words)
    if meant := meaning(str(word), words):
        return f": {word} is {meant}"
    return did_you_mean(word, words) or f"; wanted one of {', '.join(words)}"


def keyword_instead(function: str, keyword: str, known: Iterable[str]) -> str:
    """The end of a message about a keyword that a function does not take: the name of this option
    here, the keyword probably meant, or all of them.
    """
    if advice := KEYWORDS.get(keyword):
        return f": {advice.format(function)}"
    return instead(keyword, known)


def one_of(value: object, known: Iterable[object]) -> str:
    """The end of a message about a value of a few: all of them, and the one probably meant."""
    known = list(known)
    listed = (" or " if len(known) < 3 else ", ").join(map(repr, known))
    words = [word for word in known if isinstance(word, str)]
    return f"wanted {'one of ' if len(known) > 2 else ''}{listed}{did_you_mean(value, words)}"


def no_attribute(name: str, owner: str, known: Iterable[str], write: str) -> AttributeError:
    """The error for an attribute that an object lacks, with the one that the field calls so, and
    how to write it. owner: the object in words; write: the beginning of an expression for it.
    """
    message = f"{owner} has no attribute {name!r}"
    if not name.startswith("_"):  # Python and other packages ask for those, and expect none
        message = _said(name, [*known], write) or message + did_you_mean(name, known)
    return AttributeError(message, name=name, obj=None)  # with obj, Python would add another guess


def _said(name: str, known: Collection[str], write: str) -> str:
    """The meaning of the field's name, where it has one."""
    for call in meanings(name):
        if call in NOT_NEEDED:
            return call
        ours = name_of(call)
        if call in OF_MODULE if write == MODULE else call not in OF_MODULE and ours in known:
            return f"{name} is {ours}: {write}{call}"
        if call in OF_MODULE and name == ours:
            return f"{name} is a function of the package: {MODULE}{call}"
        if write == MODULE and call in CALLS:
            text = f"{name} is a method of models" if name == ours else f"{name} is {ours}"
            return f"{text}: model.{call}, with model = fl.load(source)"
    return ""


MODULE = "fl."


def cannot_be_set(name: str, verb: str = "set") -> FrozenInstanceError:
    """The error for an assignment to an attribute of a model, or for deleting it, with the method
    that returns a changed model, where there is one.
    """
    method = next((method for method, names in SET_BY.items() if name in names.split()), None)
    changed = f": {method.format(name)} gives a changed one" if method else ""
    return FrozenInstanceError(f"models are immutable, {name!r} cannot be {verb}{changed}")


SET_BY = {  # methods of models, and attributes that they give another value
    "model.with_physics({}=...)": (
        "armature damping friction friction_velocity stiffness spring_reference"
    ),
    "model.with_gravity(...)": "gravity",
    "model.renamed(...)": "joint_names body_names frame_names",
}
