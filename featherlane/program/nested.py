"""Nested values taken apart into scalars, and put together again.

A form (a pytree's structure) is a value without its scalars: types of tuples, lists and objects,
keys, and leaves that are no scalars. An object of a dataclass is one leaf, as it describes; an
object of a plain class is its attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import islice
from typing import Any, NamedTuple

SCALAR = "scalar"  # the form of a scalar, be it traced or a float


class Fixed(NamedTuple):
    """A leaf that is no scalar. kind: its type, which tells 1 from True."""

    value: Any
    kind: type


class ScalarRow(NamedTuple):
    """A tuple or list of scalars."""

    kind: type
    length: int


class Parts(NamedTuple):
    """A tuple, list, dict or object that holds more than scalars."""

    kind: type
    keys: tuple[Any, ...] | None
    forms: tuple[Any, ...]


Shape = tuple[int, ...]
Form = Any  # SCALAR, Fixed, Row or Parts


def flatten(value: Any, scalar: type, scalars: list[Any]) -> Form:
    """The form of a value; its leaves of the type `scalar`, and floats, are appended to
    `scalars`.
    """
    kind = type(value)
    if kind is scalar or isinstance(value, float):
        scalars.append(value)
        return SCALAR
    if isinstance(value, tuple | list):
        if {scalar, float}.issuperset(map(type, value)):  # most are scalars: no call for each
            scalars += value
            return ScalarRow(kind, len(value))
        forms = tuple([flatten(x, scalar, scalars) for x in value])
        is_row = all(form is SCALAR for form in forms)  # other kinds of floats are scalars too
        return ScalarRow(kind, len(forms)) if is_row else Parts(kind, None, forms)
    keys: dict[Any, Any] | None = None
    if isinstance(value, dict):
        keys = value
    elif hasattr(value, "__dict__") and not (is_dataclass(value) or callable(value)):
        keys = vars(value)
    if keys is None:
        return Fixed(value, kind)
    inside = tuple(flatten(x, scalar, scalars) for x in keys.values())
    return Parts(kind, tuple(keys), inside)


def build(form: Form, scalars: Iterator[Any]) -> Any:
    """The value of a form with these scalars, which come in the order of `flatten`."""
    if form is SCALAR:
        return next(scalars)
    if isinstance(form, Fixed):
        return form.value
    if isinstance(form, ScalarRow):
        parts = [*islice(scalars, form.length)]
    else:
        parts = [build(x, scalars) for x in form.forms]
    if isinstance(form, ScalarRow) or form.keys is None:
        return form.kind(*parts) if hasattr(form.kind, "_fields") else form.kind(parts)
    named = dict(zip(form.keys, parts, strict=True))
    if form.kind is dict:
        return named
    whole = object.__new__(form.kind)
    whole.__dict__.update(named)
    return whole


def lasting(form: Form) -> bool:
    """Whether a value of this form is immutable: it holds no list and no dict."""
    if isinstance(form, ScalarRow):
        return form.kind is not list
    if not isinstance(form, Parts):
        return True
    return form.kind not in (list, dict) and all(map(lasting, form.forms))


def nest(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    """Nested lists of a shape from entries in C order; the entry itself for shape ()."""
    if not shape:
        return flat[0]
    step = len(flat) // shape[0] if shape[0] else 0
    return [nest(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def entries_of(value: Any, scalars: tuple[type, ...], name: str) -> tuple[Shape, list[Any]]:
    """The shape and the entries, in C order, of a scalar or of nested sequences of scalars.

    Raises TypeError for anything else, and ValueError, with the name, where parts differ in shape.
    """
    if isinstance(value, scalars):
        return (), [value]
    if isinstance(value, str | bytes | Mapping):
        raise TypeError
    parts = [entries_of(part, scalars, name) for part in value]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise ValueError(f"output {name!r} is ragged: it holds parts of shapes {sorted(shapes)}")
    inner = shapes.pop() if shapes else ()
    return (len(parts), *inner), [entry for _, flat in parts for entry in flat]
