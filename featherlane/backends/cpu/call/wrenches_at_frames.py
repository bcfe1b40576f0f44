"""The entry point for wrenches {frame: wrench} of one state: it copies them to one array and calls
the function of these frames.

All keys are texts, so that no code of Python runs while it reads the dict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from featherlane.backends.cpu.addresses import address
from featherlane.backends.cpu.call import cpython
from featherlane.backends.cpu.call.cpython import (
    OB_SVAL,
    BoundSelf,
    CallTable,
    PyArrayObject,
    PyTupleObject,
    builtin,
    reduced,
)
from featherlane.backends.llvm.records import field, packed, read

TYPE, SIZE = PyArrayObject.ob_type.offset, PyTupleObject.OB_SIZE


class WrenchSelf(NamedTuple):
    """The `self` of a callable for wrenches {frame: wrench}: the Python callable for all other
    calls, the name of that argument in a tuple, its position, an object that must outlive the
    callable, and an entry for each set of frames: their names in order and the `self` of callables
    that take their wrenches as one array.
    """

    pass_on: Callable[..., Any]
    names: tuple[str, ...]
    table: bytes
    entries: tuple[tuple[Any, ...], ...]
    alive: object

    def __reduce__(self) -> Any:
        return reduced(self)


CALL_WITH_WRENCHES = f"""
define ptr @call_with_wrenches(ptr %self, ptr %args, i64 %count, ptr %keywords) {{
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(WrenchSelf, "%bound", "pass_on:ptr names:ptr entries:ptr")}
  %position = item i64 $(at $(item ptr %bound {field(WrenchSelf, "table")}) {OB_SVAL}) 0
  %name = item ptr $(at %names {PyTupleObject.OB_ITEM}) 0
  %place = call i64 @place(i64 %count, ptr %keywords, i64 %position, ptr %name)
  need sge i64 %place, 0
  %dict = item ptr %args %place
  need eq ptr $(field ptr %dict {TYPE}), {address("dict_type")}
  %texts = call i64 @texts_in(ptr %dict)
  need sge i64 %texts, 0
  %size = field i64 %entries {SIZE}
  %list = at %entries {PyTupleObject.OB_ITEM}
  each %e 0 %size
  %entry = item ptr %list %e
  %items = at %entry {PyTupleObject.OB_ITEM}
  %frames = item ptr %items 0
  when ne i64 $(field i64 %frames {SIZE}), %texts: e.end
  %fronts = field i64 %entry {SIZE}
  each %f 1 %fronts
  %front = item ptr %items %f
  %result = call ptr @with_wrenches(ptr %front, ptr %frames, ptr %dict, i64 %place, ptr %args,
                                    i64 %count, ptr %keywords)
  when ne ptr %result, {address("py_none")}: done
  again %f
  again %e
  br label %no
no:
  ret ptr $(call ptr {address("vectorcall")}(ptr %pass_on, ptr %args, i64 %count, ptr %keywords))
done:
  ret ptr %result
}}

; The number of keys of a dict, -1 if one is no text.
define internal i64 @texts_in(ptr %dict) {{
  %at = alloca i64
  %key = alloca ptr
  %value = alloca ptr
  put i64 0 %at 0
  each %k 0 -1
  %more = call i32 {address("dict_next")}(ptr %dict, ptr %at, ptr %key, ptr %value)
  when eq i32 %more, 0: end
  need eq ptr $(field ptr $(item ptr %key 0) {TYPE}), {address("text_type")}
  again %k
  br label %no
end:
  ret i64 %k
no:
  ret i64 -1
}}
"""

WITH_WRENCHES = f"""
; The result of a call with wrenches at these frames as an array, None if it is not taken. %place:
; where the dict is among the arguments.
define internal ptr @with_wrenches(ptr %self, ptr %frames, ptr %dict, i64 %place, ptr %args,
                                   i64 %count, ptr %keywords) {{
  %none = at {address("py_none")} 0
  %bound = at %self {PyTupleObject.OB_ITEM}
  {read(BoundSelf, "%bound", "names:ptr")}
  %table = at $(item ptr %bound {field(BoundSelf, "table")}) {OB_SVAL}
  {read(CallTable, "%table", "inputs taken")}
  %named = call i64 @named_arguments(ptr %keywords)
  need ule i64 %count, %taken
  need $(call i1 @are_known(ptr %names, ptr %keywords, i64 %named))
  %all = add i64 %count, %named
  %values = alloca ptr, i64 %all
  call void @copy(ptr %values, ptr %args, i64 0, i64 %all)
  need $(call i1 @in_time(ptr %self, ptr %args, i64 %count, ptr %keywords))
  %record = call ptr @record(ptr %table, i64 $(sub i64 %inputs, 1))
  %rows = call ptr @new_array(ptr %table, ptr %record, i64 0)
  when eq ptr %rows, null: failed
  put ptr %rows %values %place
  %answer = alloca ptr
  put ptr %none %answer 0
  when $(call i1 @copy_wrenches(ptr %table, ptr %frames, ptr %dict, ptr %rows)): attempt, leave
attempt:
  %first = call ptr @attempt(ptr %self, ptr %values, i64 %count, ptr %keywords)
  put ptr %first %answer 0
  when ne ptr %first, %none: leave
  %second = call ptr @with_arrays(ptr %self, ptr %values, i64 %count, ptr %keywords)
  put ptr %second %answer 0
  br label %leave
leave:
  call void {address("decref")}(ptr %rows)
  ret ptr $(item ptr %answer 0)
failed:
  ret ptr null
no:
  ret ptr %none
}}

; Copies the wrenches of a dict to the rows of an array; false if one is missing or is none. Lists
; are taken in float64 alone: float32 needs an array that asks for it.
define internal i1 @copy_wrenches(ptr %table, ptr %frames, ptr %dict, ptr %rows) {{
  %size = field i64 %frames {SIZE}
  %list = at %frames {PyTupleObject.OB_ITEM}
  %to = alloca ptr
  put ptr $(field ptr %rows {PyArrayObject.data.offset}) %to 0
  each %k 0 %size
  %value = call ptr {address("dict_get")}(ptr %dict, ptr $(item ptr %list %k))
  need ne ptr %value, null
  %start = item ptr %to 0
  %next = call ptr @copy_wrench(ptr %table, ptr %value, ptr %start)
  need ne ptr %next, null
  put ptr %next %to 0
  again %k
  ret i1 true
no:
  ret i1 false
}}

; Copies one wrench; returns the address behind it, null if it is none.
define internal ptr @copy_wrench(ptr %table, ptr %value, ptr %to) {{
  {read(CallTable, "%table", "number dtype:ptr")}
  %double = icmp eq i64 %number, {cpython.NPY_DOUBLE}
  when eq ptr $(field ptr %value {TYPE}), {address("array_type")}: array
  need %double
  %six = alloca i64
  put i64 6 %six 0
  ret ptr $(call ptr @fill(i64 %number, ptr %value, i64 1, ptr %six, ptr %to))
array:
  need eq ptr $(field ptr %value {PyArrayObject.descr.offset}), %dtype
  %flags = field i32 %value {PyArrayObject.flags.offset}
  need ne i32 $(and i32 %flags, {cpython.NPY_ARRAY_ALIGNED}), 0
  need eq i32 $(field i32 %value {PyArrayObject.nd.offset}), 1
  need eq i64 $(item i64 $(field ptr %value {PyArrayObject.dimensions.offset}) 0), 6
  %stride = item i64 $(field ptr %value {PyArrayObject.strides.offset}) 0
  %data = field ptr %value {PyArrayObject.data.offset}
  %bytes = select i1 %double, i64 8, i64 4
  %x = alloca double
  each %k 0 6
  %from = at %data $(mul i64 %k, %stride)
  put double $(call double @number_at(i1 %double, ptr %from)) %x 0
  %entry = at %to $(mul i64 %k, %bytes)
  %stored = call ptr @store(i64 %number, ptr %x, ptr %entry)
  need ne ptr %stored, null
  again %k
  ret ptr $(at %to $(mul i64 6, %bytes))
no:
  ret ptr null
}}
"""

FUNCTIONS = CALL_WITH_WRENCHES + WITH_WRENCHES


def with_wrenches(
    entry: int,
    pass_on: Callable[..., Any],
    functions: Iterable[tuple[tuple[str, ...], Sequence[Callable[..., Any]]]],
    position: int,
    *,
    name: str,
    doc: str,
    alive: object,
) -> Callable[..., Any]:
    """Returns a callable that takes f_ext as {frame: wrench}.

    entry: the address of @call_with_wrenches; pass_on: the Python callable for all other calls;
    functions: the names of frames, in order, and the callables of `cpython.callable_of` that take
    their wrenches as their last input; position: of f_ext among the arguments.
    """
    entries = tuple((frames, *(x.__self__ for x in fronts)) for frames, fronts in functions)  # type: ignore[attr-defined]
    names, table = (sys.intern("f_ext"),), packed([position])
    return builtin(name, entry, doc, WrenchSelf(pass_on, names, table, entries, alive))
