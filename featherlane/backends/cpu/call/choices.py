"""The entry point of methods whose options are texts, such as frames: it finds the callable of the
options' values, and calls it with the same arguments.

The lookups run no code of Python, as all keys are texts or None.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call.cpython import (
    OB_SVAL,
    PyArrayObject,
    PyTupleObject,
    builtin,
    reduced,
)
from featherlane.backends.llvm.records import field, packed, read, words

# The most arguments by position; the position of each option follows, that of one by name alone -1
ChoiceTable = namedtuple("ChoiceTable", "most")


class ChoiceSelf(NamedTuple):
    """The `self` of a callable that chooses another one: the Python callable for all other calls, a
    dict of dicts of callables, one level for each option, with None for its default; the names of
    the options, a ChoiceTable, and an object that must outlive the callable.
    """

    pass_on: Callable[..., Any]
    choices: dict[str | None, Any]
    names: tuple[str, ...]
    table: bytes
    alive: object

    def __reduce__(self) -> Any:
        return reduced(self)


FUNCTIONS = f"""
define ptr @choose(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(ChoiceSelf, "%bound", "pass_on:ptr choices:ptr names:ptr")}
  %table = at $(item ptr %bound {field(ChoiceSelf, "table")}) {OB_SVAL}
  need ule i64 %count, $(item i64 %table {field(ChoiceTable, "most")})
  %options = field i64 %names {PyTupleObject.OB_SIZE}
  %list = at %names {PyTupleObject.OB_ITEM}
  %positions = word %table {words(ChoiceTable)}
  %level = alloca ptr
  put ptr %choices %level 0
  each %k 0 %options
  %name = item ptr %list %k
  %position = item i64 %positions %k
  %value = call ptr @argument(ptr %args, i64 %count, ptr %keywords, i64 %position, ptr %name)
  %none = at {address("py_none")} 0
  %default = icmp eq ptr %value, null
  when %default: look_up
  need eq ptr $(field ptr %value {PyArrayObject.ob_type.offset}), {address("text_type")}
  br label %look_up
look_up:
  %key = select i1 %default, ptr %none, ptr %value
  %next = call ptr {address("dict_get")}(ptr $(item ptr %level 0), ptr %key)
  need ne ptr %next, null
  put ptr %next %level 0
  again %k
  %chosen = item ptr %level 0
  call void {address("incref")}(ptr %chosen)
  %result = call ptr {address("vectorcall")}(ptr %chosen, ptr %args, i64 %count, ptr %keywords)
  call void {address("decref")}(ptr %chosen)
  ret ptr %result
no:
  ret ptr $(call ptr {address("vectorcall")}(ptr %pass_on, ptr %args, i64 %count, ptr %keywords))
}}
"""


def chooser(
    entry: int,
    pass_on: Callable[..., Any],
    choices: dict[str | None, Any],
    positions: Mapping[str, int],
    most: int,
    *,
    name: str,
    doc: str,
    alive: object,
) -> Callable[..., Any]:
    """Returns a callable that hands a call to one of the choices.

    entry: the address of @choose; pass_on: the Python callable for values that are not among the
    choices, which may change later; positions: of the options in their order; most: the most
    arguments by position.
    """
    names = tuple(map(sys.intern, positions))
    table = packed([*ChoiceTable(most), *positions.values()])
    return builtin(name, entry, doc, ChoiceSelf(pass_on, choices, names, table, alive))
