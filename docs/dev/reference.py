"""What the reference shows of a public name besides its docstring: the arguments of `Model`'s
methods, whose texts are a table of the package, the values of defaults that the code names, and
where the source is. An extension of Griffe, which reads the package for mkdocstrings.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

import featherlane as fl
from featherlane.api.argument_texts import argument_text
from featherlane.api.presented import shown

ROOT = Path(__file__).parents[2]
MODULES = (fl, fl.convert, fl.editing, fl.identification)


def public() -> Iterator[tuple[str, Any]]:
    """The path at which the code defines a public callable, and the callable."""
    for module in MODULES:
        for name in module.__all__:
            yield from _paths(getattr(module, name))
    for owner in (fl.Model, fl.ModelBuilder, type(fl.accelerator)):
        for base in owner.__mro__:
            for name in vars(base).keys() - vars(object).keys():
                method = getattr(owner, name)
                if callable(method) and not name.startswith("_"):
                    yield f"{base.__module__}.{base.__qualname__}.{name}", method


def _paths(item: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isclass(item):
        yield f"{item.__module__}.{item.__qualname__}.__init__", item
    elif inspect.isfunction(item):
        code = inspect.unwrap(item)
        yield f"{code.__module__}.{code.__qualname__}", item


class Shown(griffe.Extension):
    """Adds to what Griffe reads from the text of the package what only the running one knows."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        self.callables = dict(public())

    def on_object(self, *, obj: griffe.Object, **named: Any) -> None:
        if obj.lineno and isinstance(obj.filepath, Path):
            path = obj.filepath.relative_to(ROOT).as_posix()
            obj.source_link = f"{self.repository}/blob/main/{path}#L{obj.lineno}-L{obj.endlineno}"

    def on_function(
        self, *, func: griffe.Function, loader: griffe.GriffeLoader, **named: Any
    ) -> None:
        if (item := self.callables.get(func.path)) is None:
            return
        _give_values(func, item)
        if str(func.returns) in TYPES_OF_SELF:
            func.returns = griffe.ExprName("Model", loader.modules_collection["featherlane"])
        if func.parent and func.parent.name in METHOD_CLASSES and func.docstring:
            func.docstring.value = _with_arguments(func)


METHOD_CLASSES = {base.__name__ for base in fl.Model.__mro__}
TYPES_OF_SELF = {"C", "M"}  # type variables of methods that return a changed copy


def _give_values(func: griffe.Function, item: Any) -> None:
    """Replaces names of constants, as DEFAULT_INTEGRATOR, by their values."""
    values = {name: p.default for name, p in inspect.signature(item).parameters.items()}
    for parameter in func.parameters:
        if parameter.default is not None and parameter.name in values:
            parameter.default = shown(values[parameter.name])


def _with_arguments(func: griffe.Function) -> str:
    """The docstring of a method of `Model` with its arguments before the examples."""
    text, examples, rest = func.docstring.value.partition("Examples:\n")
    names = [p.name for p in func.parameters if p.name != "self"]
    lines = [f"    {name}: {argument_text(func.name, name)}" for name in names]
    listed = "\n".join(["Arguments:", *lines, "", ""]) if lines else ""
    return f"{text}{listed}{examples}{rest}"
