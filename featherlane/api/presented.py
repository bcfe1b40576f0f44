"""The methods of a public class as users meet them.

`Model` is put together from classes of one topic each, which no page shows. Here its methods get
the name of the class that users hold, help that lists each argument with shape, unit and default,
and errors that say what a keyword of another library is called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from featherlane.api.argument_texts import argument_text, with_arguments
from featherlane.errors import keyword_instead
from featherlane.functions.table import CALLED

F = TypeVar("F", bound=Callable[..., Any])
NO_DEFAULT = object()


def present(owner: type) -> None:
    """Presents all public methods that the bases of this package bring to a class."""
    for name, method in _methods(owner):
        method.__qualname__ = f"{owner.__name__}.{name}"
        setattr(owner, name, _presented(method, owner))


def _methods(owner: type) -> Iterator[tuple[str, FunctionType]]:
    for name in dir(owner):
        base = next((base for base in owner.__mro__ if name in vars(base)), object)
        method = vars(base)[name]
        ours = base.__module__.startswith("featherlane.") and not name.startswith("_")
        if ours and isinstance(method, FunctionType):
            yield name, method


def explained(function: F) -> F:
    """A function whose error for an unknown keyword says what is meant."""
    code = cast(FunctionType, function)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError:
            if (unknown := named.keys() - _parameters(code)) and not _takes_any(code):
                raise _unknown_keyword(code, min(unknown)) from None
            if len(args) > code.__code__.co_argcount and not _star(code):
                raise _too_many(code, args) from None
            raise

    return cast(F, call)


def _presented(method: FunctionType, owner: type) -> Callable[..., Any]:
    """A method with its help. A call of it takes some 0.2 us longer than one of the method: plain
    calls of compiled functions do not come here, machine code takes them (`functions.fast_path`).
    """
    presented = explained(method)
    presented.__module__ = owner.__module__  # pickle looks for the name there
    if method.__doc__:
        presented.__doc__ = with_arguments(method.__doc__, _arguments(method))
    return presented


def _parameters(function: FunctionType) -> dict[str, Any]:
    """The parameters with their defaults, without self; `inspect.signature` takes ten times as
    long, which imports would wait for.
    """
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    values = dict.fromkeys((*positional, *keywords), NO_DEFAULT)
    values |= dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    values |= function.__kwdefaults__ or {}
    values.pop("self", None)
    return values


def _star(method: FunctionType) -> str:
    """The name of *args, or nothing."""
    code = method.__code__
    first = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[first] if code.co_flags & TAKES_ANY_POSITIONAL else ""


TAKES_ANY_POSITIONAL, TAKES_ANY_NAMED = 4, 8  # flags of code objects, as `inspect` has them


def _takes_any(method: FunctionType) -> bool:
    return bool(method.__code__.co_flags & TAKES_ANY_NAMED)


def _unknown_keyword(method: FunctionType, keyword: str) -> TypeError:
    name = method.__name__ if method.__name__ in CALLED else "inverse_dynamics"
    meant = keyword_instead(name, keyword, _parameters(method))
    return TypeError(
        f"{method.__qualname__}() got an unexpected keyword argument {keyword!r}{meant}"
    )


def _too_many(function: FunctionType, args: tuple[Any, ...]) -> TypeError:
    """The error for arguments by position that have to be passed by keyword, or are not taken."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    of_method = names[:1] == ("self",)
    by_position, count = names[of_method:], len(args) - of_method
    by_keyword = [name for name in _parameters(function) if name not in by_position]
    others = f"; by keyword go {', '.join(by_keyword)}" if by_keyword else ""
    taken = f"only {', '.join(by_position)}" if by_position else "nothing"
    return TypeError(
        f"{function.__qualname__}() takes {taken} by position, and got {count} "
        f"argument{'s' if count > 1 else ''}{others}"
    )


def _arguments(method: FunctionType) -> dict[str, str]:
    """The arguments of a method in words, by name, with their defaults."""
    parameters = _parameters(method)
    if star := _star(method):
        parameters |= {star: NO_DEFAULT}
    return {name: _text(method.__name__, name, value) for name, value in parameters.items()}


def _text(method: str, name: str, default: object) -> str:
    text = argument_text(method, name, default)
    return text if default is NO_DEFAULT else f"{text} (default: {shown(default)})"


def shown(default: object) -> str:
    """A default as it is written: double quotes, names of types."""
    if isinstance(default, str):
        return f'"{default}"'
    return default.__name__ if isinstance(default, type) else repr(default)
