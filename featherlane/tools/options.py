"""Options of the command line: each is defined once and checked before a command starts."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.api.named_variants import NAMED
from featherlane.backends.cpu.results import size_of
from featherlane.errors import did_you_mean, instead
from featherlane.functions.table import FUNCTIONS, TABLE
from featherlane.robot.loaders import LOOPS as WHAT_OF_LOOPS
from featherlane.robot.loaders import ROOTS, bundled
from featherlane.tools.timing import DTYPES, SHORT

IN_FULL = {short: name for name, short in SHORT.items()}


class Option(NamedTuple):
    """An argument of a command.

    name: "--root", or "robot" for a positional argument. words: values that completion offers;
    files: whether it offers files, too. settings: what `ArgumentParser.add_argument` takes besides.
    """

    name: str
    help: str
    words: Sequence[str] = ()
    files: bool = False
    settings: dict[str, Any] = {}  # noqa: RUF012 - read only

    @property
    def positional(self) -> bool:
        return not self.name.startswith("-")

    @property
    def takes_value(self) -> bool:
        return self.settings.get("action") != "store_true"

    @property
    def metavar(self) -> str:
        """The name of the value in help texts."""
        return self.settings.get("metavar", self.name.removeprefix("--").upper())


def flag(name: str, help: str) -> Option:
    """An option without a value."""
    return Option(name, help, settings={"action": "store_true"})


def choice(name: str, help: str, words: Sequence[str], **settings: Any) -> Option:
    """An option whose value is one of a few words."""
    metavar = name.removeprefix("--").upper()
    return Option(name, help, words, settings={"choices": words, "metavar": metavar, **settings})


def count(name: str, help: str, default: int | None = None) -> Option:
    """An option whose value is a whole number, 1 or more."""
    return Option(name, help, settings={"type": _count, "metavar": "N", "default": default})


def count_or_auto(name: str, help: str) -> Option:
    """An option whose value is a whole number, 1 or more, or the word auto."""
    settings = {"type": _count_or_auto, "metavar": "N", "default": None}
    return Option(name, help, ("auto",), settings=settings)


def number(name: str, help: str) -> Option:
    """An option whose value is a positive number."""
    return Option(name, help, settings={"type": _number, "metavar": "X"})


def _number(text: str) -> float:
    try:
        x = float(text)
    except ValueError:
        x = nan
    if 0 < x < inf:
        return x
    raise ArgumentTypeError(f"is {text}; wanted a positive number")


def interval(name: str, help: str) -> Option:
    """An option whose values are intervals by name, NAME=LOW,HIGH; may be repeated."""
    settings = {"type": _interval, "action": "append", "metavar": "NAME=LOW,HIGH"}
    return Option(name, help, settings=settings)


def _interval(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.partition("=")
    try:
        low, high = map(float, ends.split(","))
    except ValueError:
        message = f"is {text}; wanted NAME=LOW,HIGH, such as v=-3,3"
        raise ArgumentTypeError(message) from None
    return name, (low, high)


def size(name: str, help: str) -> Option:
    """An option whose value is a size in bytes, or in units such as 500M."""
    return Option(name, help, settings={"type": _size, "metavar": "SIZE"})


def _size(text: str) -> int:
    try:
        return size_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if text.strip().isdecimal() and int(text) >= 1:
        return int(text)
    raise ArgumentTypeError(f"is {text}; wanted a whole number, 1 or more")


def _count_or_auto(text: str) -> int | str:
    if text.strip() == "auto":
        return "auto"
    try:
        return _count(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or auto{did_you_mean(text, ['auto'])}") from None


def written_file(name: str, help: str, check: Callable[[str], Path]) -> Option:
    """An option whose value is a file to write. check: from the text to the path; raises ValueError
    or RuntimeError if the file could not be written.
    """

    def checked(text: str) -> Path:
        try:
            return check(text)
        except (ValueError, RuntimeError) as error:
            raise ArgumentTypeError(str(error)) from None

    return Option(name, help, files=True, settings={"type": checked, "metavar": "FILE"})


def free_text(name: str, help: str, **settings: Any) -> Option:
    """An option whose value a command checks itself."""
    metavar = name.removeprefix("--").upper()
    return Option(name, help, settings={"metavar": metavar, **settings})


def dtype(default: str, *more: str) -> Option:
    """--dtype: float64 or float32, f64 or f32 for short, or another word of the command."""
    words = (*more, *DTYPES)
    in_full = {"f64": "float64", "f32": "float32"}
    settings = {"type": lambda text: in_full.get(text, text), "default": default}
    return choice("--dtype", f"{', '.join(words)} (%(default)s)", words, **settings)


def _any_function(text: str) -> tuple[str | None, str]:
    """The name in C that the user gives, if any, and the function."""
    c_name, equals, function = text.rpartition("=")
    name, colon, option = function.partition(":")
    name = IN_FULL.get(name, name)
    if name in TABLE and bool(c_name) == bool(equals):
        return c_name or None, name + colon + option
    raise ArgumentTypeError(f"is {text!r}{instead(name, [*TABLE, *IN_FULL])}")


def _mapped_function(text: str) -> str:
    name, colon, option = text.partition(":")
    name = IN_FULL.get(name, name)
    if name in NAMED:
        return name + colon + option
    raise ArgumentTypeError(f"is {text!r}{instead(name, [*NAMED, *IN_FULL])}")


def _functions(text: str) -> tuple[str, ...]:
    """One of the seven functions, or several with commas between them."""
    return tuple(_function(word) for word in text.split(","))


def _function(text: str) -> str:
    name = IN_FULL.get(text, text)
    if name in FUNCTIONS:
        return name
    known = ", ".join(f"{name} ({SHORT[name]})" for name in FUNCTIONS)
    meant = did_you_mean(text, [*FUNCTIONS, *IN_FULL])
    raise ArgumentTypeError(f"is {text!r}; wanted one of {known}{meant}")


ROBOT = Option("robot", "name, file, or - for stdin", bundled(), True, {"metavar": "ROBOT"})
ROOT = choice("--root", f"type of the root joint: {', '.join(ROOTS)} (as in the file)", ROOTS)
PACKAGES = Option(
    "--packages",
    "folder in which $(find NAME) in a xacro file looks for packages first; may be repeated",
    files=True,
    settings={"action": "append", "default": [], "metavar": "FOLDER"},
)
LOOPS = choice(
    "--loops",
    "refuse, keep or drop closed loops of the file (%(default)s)",
    WHAT_OF_LOOPS,
    default="refuse",
)
DTYPE = dtype("float64")
JSON = flag("--json", "print one JSON object instead of text")
FUNCTION = Option(
    "--function",
    f"one of the seven functions: {', '.join(IN_FULL)}, or its full name; may be repeated",
    (*FUNCTIONS, *IN_FULL),
    settings={"type": _function, "action": "append", "metavar": "NAME"},
)
CIRCUIT_FUNCTIONS = FUNCTION._replace(
    name="function",
    help=f"one of the seven functions: {', '.join(IN_FULL)}, or its full name; or several of them, "
    "behind one serial port",
    settings={"type": _functions, "metavar": "FUNCTION", "nargs": "+"},
)
# Names that `fl.accelerator.build` takes, whose tables are read when it needs them
BOARDS = ("ulx3s", "i5", "i9", "orangecrab", "ecp5_evn")
BOARD = Option(
    "--board",
    f"a board with an ECP5: {', '.join(BOARDS)}",
    BOARDS,
    settings={"metavar": "BOARD", "required": True},
)
NO_FRICTION = flag("--no-friction", "leave the friction of joints out, which circuits may not have")
ANY_FUNCTION = Option(
    "--function",
    "a function of the robot, followed by a colon and its frame, parameter or integrator if it has "
    "one (jacobian:tool0, jacobian:tool0:world, step:rk4; integrators: "
    f"{', '.join(INTEGRATORS)}); NAME=FUNCTION gives its name in C; may be repeated (the seven "
    "dynamics functions)",
    (*TABLE, *IN_FULL),
    settings={"type": _any_function, "action": "append", "metavar": "NAME"},
)
DTYPE_OF_ARRAYS = DTYPE._replace(
    help="float64 or float32 (that of the arrays)", settings={**DTYPE.settings, "default": None}
)
MAPPED_FUNCTION = Option(
    "function",
    "a function of the robot: ID, dFD or its full name, with a colon and its frame, integrator or "
    "steps if it has them (step:rk4, rollout:32)",
    (*NAMED, *IN_FULL),
    settings={"type": _mapped_function, "metavar": "FUNCTION"},
)
