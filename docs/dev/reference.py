"""What the reference shows of a public name besides the text of its source: lists of arguments that
docstrings get when the package is imported, the values of defaults that have names in the code,
and a link to the source. An extension of Griffe, which reads the package for mkdocstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

import featherlane as fl
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
        if obj.docstring:
            obj.docstring.value = _with_errors(obj.docstring.value)
        if obj.lineno and isinstance(obj.filepath, Path):
            path = obj.filepath.relative_to(ROOT).as_posix()
            obj.source_link = f"{self.repository}/blob/main/{path}#L{obj.lineno}-L{obj.endlineno}"

    def on_class(self, *, cls: griffe.Class, **named: Any) -> None:
        """Leaves out the constructors of classes that functions return, and users do not build, and
        adds those of named tuples, which Griffe does not know.
        """
        if cls.docstring and "Arguments:" not in cls.docstring.value:
            cls.members.pop("__init__", None)
        elif cls.docstring and any(str(base) == "NamedTuple" for base in cls.bases):
            cls["__init__"] = _of_fields(cls)
            _give_values(cls["__init__"], self.callables[f"{cls.path}.__init__"])

    def on_function(
        self, *, func: griffe.Function, loader: griffe.GriffeLoader, **named: Any
    ) -> None:
        if (item := self.callables.get(func.path)) is None:
            return
        _give_values(func, item)
        if str(func.returns) in TYPES_OF_SELF:
            func.returns = griffe.ExprName("Model", loader.modules_collection["featherlane"])
        if func.docstring:
            func.docstring.value = _with_errors(IN_TEXT.sub("", inspect.getdoc(item) or ""))


IN_TEXT = re.compile(r"\s\(default:\s.*?\)(?=\n(?:    \w|\n))", re.DOTALL)  # shown beside the type
ERRORS = re.compile(r"(?:(?<=\.)|(?<=\n)|^)\s*\bRaises\s+(.+?\.)(?=\s|$)", re.DOTALL)
TYPES_OF_SELF = {"C", "M"}  # type variables of methods that return a changed copy


def _with_errors(documentation: str) -> str:
    """A docstring whose sentences about errors stand in a paragraph of their own."""
    text, arguments, rest = documentation.partition("Arguments:\n")
    listed, examples, code = rest.partition("Examples:\n")
    if not arguments or not (errors := ERRORS.findall(text)):
        return documentation
    paragraph = f"**Errors:** {' '.join(errors)}\n\n"
    return f"{ERRORS.sub('', text).rstrip()}\n\n{arguments}{listed}{paragraph}{examples}{code}"


def _of_fields(cls: griffe.Class) -> griffe.Function:
    """The constructor of a named tuple."""
    kind = griffe.ParameterKind.positional_or_keyword
    fields = [
        griffe.Parameter(x.name, annotation=x.annotation, kind=kind, default=x.value)
        for x in cls.attributes.values()
        if x.annotation is not None
    ]
    parameters = griffe.Parameters(griffe.Parameter("self", kind=kind), *fields)
    return griffe.Function("__init__", parameters=parameters, parent=cls)


def _give_values(func: griffe.Function, item: Any) -> None:
    """Replaces names of constants, as DEFAULT_INTEGRATOR, by their values."""
    values = {name: p.default for name, p in inspect.signature(item).parameters.items()}
    for parameter in func.parameters:
        if parameter.default is not None and parameter.name in values:
            parameter.default = shown(values[parameter.name])
