"""The files of a library of C functions: header, source, a program that checks it, and CMake's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.backends.c import checks
from featherlane.backends.c.arithmetic import CTYPES, CType, helpers
from featherlane.backends.c.code import CArray, CForm, code, with_body, wrapped
from featherlane.backends.c.names import check_argument, check_start, comment
from featherlane.backends.c.written import CFunction, Written, work_constant
from featherlane.program.program import Program

WIDEST = 512  # bits of the widest vectors of states


def library(
    name: str, functions: Sequence[CFunction], preface: Sequence[str], dtype: Any, batch: bool
) -> dict[str, str]:
    """The text of each file. preface: lines of the comment at the head of the header; batch:
    whether functions for many states come too, with a struct of arrays.

    Raises ValueError for a name that is not valid in C, or that two functions have.
    """
    check_start(name, "the name")
    t = CTYPES[np.dtype(dtype)]
    written = [_written(name, each, t, batch) for each in functions]
    _check_functions(written, batch)
    return {
        f"{name}.h": _header(name, written, preface, t, batch),
        f"{name}.c": _source(name, written, t, batch),
        f"{name}_check.c": checks.program(name, written, t, np.dtype(dtype), WIDEST // t.bits),
        "CMakeLists.txt": _cmake(name),
    }


def _check_functions(written: Sequence[Written], batch: bool) -> None:
    """Raises ValueError for two functions with one name, or with one constant: constants are in
    upper case, and NAME_BATCH_WORK is a constant of the library.
    """
    names = [f"{each.function.name}{s}" for each in written for s in each.forms]
    upper = [x.upper() for x in names]
    for x in names:
        if upper.count(x.upper()) > 1:
            where = "but for upper and lower case" if names.count(x) == 1 else "in the code"
            raise ValueError(f"two functions are called {x!r} {where}: give one another name")
        if batch and x.upper() == "BATCH":
            raise ValueError(f"function {x!r} has a name of the generated code: give it another")


def _written(name: str, each: CFunction, t: CType, batch: bool) -> Written:
    check_start(each.name, "the function")
    program = each.program
    if not program.outputs:
        raise ValueError(f"function {each.name!r} has no outputs: there is nothing to compute")
    for what, names in (("input", program.inputs), ("output", program.outputs)):
        for argument in names:
            check_argument(argument, f"{what} of {each.name},")
    renamed = _renamed(program)
    forms = [CForm(t), CForm(t, True)] if batch else [CForm(t)]
    prefix = f"{name}_{each.name}_"  # two underscores follow, which no name of a user's has
    return Written(each, renamed, {f.suffix: code(prefix, program, f, renamed) for f in forms})


def _renamed(program: Program) -> dict[str, str]:
    """The names of the outputs in C, which differ from those of inputs."""
    taken, renamed = {*program.inputs, *program.outputs}, dict[str, str]()
    for out in program.outputs:
        name = out
        while name in program.inputs or (name != out and name in taken):
            name += "_out"
        taken.add(name)
        renamed[out] = name
    return renamed


# The header

ABOUT_ARRAYS = """\
Every function writes what it computes into the caller's arrays: no memory is allocated, no state
is kept, and threads may call it at the same time with workspaces of their own. Matrices lie row
by row. `work` is room for as many numbers as the constant ending in _WORK says (NULL will do
where that is 0); {most} suffices for {whom}. No two arrays may overlap.
Compile with -ffp-contract=off (/fp:precise) and without -ffast-math: then results have the bits
of the Python package."""
ABOUT_BATCH = """\
Functions ending in _batch take any number of states as a struct of arrays: entry j of state i is
at [j * states + i]. They compute with vectors of states, as wide as the compiler's flags allow
(-march=native). They need more work: {most} suffices for all of them."""
OPEN = """\
#ifndef {guard}
#define {guard}

#include <stddef.h>

#ifndef FL_RESTRICT
#if defined(_MSC_VER) || defined(__cplusplus)
#define FL_RESTRICT __restrict
#else
#define FL_RESTRICT restrict
#endif
#endif

#ifdef __cplusplus
extern "C" {{
#endif
"""
CLOSE = """\

#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _header(
    name: str, written: Sequence[Written], preface: Sequence[str], t: CType, batch: bool
) -> str:
    guard, upper = f"{name.upper()}_H", name.upper()
    whom = "all functions of one state" if batch else "all functions"
    note = ABOUT_ARRAYS.format(most=f"{upper}_WORK", whom=whom)
    about = [*map(comment, preface), "", *note.split("\n")]
    sizes = [_size(name, each, suffix, t) for each in written for suffix in each.forms]
    most = max((each.forms[""].workspace for each in written), default=0)
    lines = [f"#define {upper}_WORK {most}"]
    if batch:
        about += ["", *ABOUT_BATCH.format(most=f"{upper}_BATCH_WORK").split("\n")]
        lines.append(
            f"#define {upper}_BATCH_WORK {max(_numbers_of_batch(each, t) for each in written)}"
        )
    constants = "\n".join([*lines, *sizes])
    declared = [_declaration(name, each, t) for each in written]
    return "\n".join(
        [_comment(about), OPEN.format(guard=guard), constants, "", *declared]
    ) + CLOSE.format(guard=guard)


def _numbers_of_batch(each: Written, t: CType) -> int:
    """The size of `work` for a function of many states, in numbers: its workspace and one vector of
    each argument, at the greatest width.
    """
    values = each.forms["_batch"].workspace + sum(map(_vectors, each.sizes.values()))
    return values * (WIDEST // t.bits)


def _vectors(entries: int) -> int:
    """The vectors of an argument in `work`, at least one."""
    return max(entries, 1)


def _size(name: str, each: Written, suffix: str, t: CType) -> str:
    size = _numbers_of_batch(each, t) if suffix else each.forms[suffix].workspace
    return f"#define {work_constant(name, each, suffix)} {size}"


def _comment(lines: Sequence[str]) -> str:
    return "\n".join(["/*", *[f" * {line}".rstrip() for line in lines], " */\n"])


def _declaration(name: str, each: Written, t: CType) -> str:
    f = each.function
    shapes = {**f.program.inputs, **{k: out.shape for k, out in f.program.outputs.items()}}
    ins = [(k, k, "in") for k in f.program.inputs]
    outs = [(k, each.renamed[k], "out") for k in f.program.outputs]
    rows = [
        (shown, "".join(f"[{n}]" for n in shapes[k]) or "[1]", way, f.meanings.get(k, ""))
        for k, shown, way in [*ins, *outs]
    ]
    wide = [max(len(row[n]) for row in rows) for n in range(3)]
    table = [
        f"  {a:{wide[0]}} {b:{wide[1]}}  {c:{wide[2]}}  {comment(d)}".rstrip()
        for a, b, c, d in rows
    ]
    heads = [f"{signature(name, each, t, suffix)};\n" for suffix in each.forms]
    return "\n".join([_comment([comment(f.about), "", *table]) + heads[0], *heads[1:]])


def signature(name: str, each: Written, t: CType, suffix: str) -> str:
    """The head of a public function."""
    states = ["size_t states"] if suffix else []
    parameters = [*states, *[a.declared(CForm(t)) for a in each.parameters]]
    parameters.append(CArray("work", True).declared(CForm(t)))
    return wrapped(f"void {name}_{each.function.name}{suffix}(", parameters)


# The source

TOP = """\
/* See {name}.h. */
#include "{name}.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

/* Blocks of long functions stay functions, which keeps compile time and stack small. */
#if defined(__GNUC__)
#define FL_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define FL_NOINLINE __declspec(noinline)
#else
#define FL_NOINLINE
#endif
"""


def _source(name: str, written: Sequence[Written], t: CType, batch: bool) -> str:
    operations = {op for each in written for g in each.function.program.graphs for op in g.op}
    parts = [TOP.format(name=name), helpers(t, operations, batch)]
    for each in written:
        for suffix, c in each.forms.items():
            parts += [*c.definitions, *_function(name, each, t, suffix)]
    return "\n".join(part for part in parts if part)


def _function(name: str, each: Written, t: CType, suffix: str) -> list[str]:
    """The public function; for many states, the function of one vector comes before it."""
    c, head = each.forms[suffix], signature(name, each, t, suffix)
    if not suffix:
        return [_text(head, each, c.body)]
    form, vector = CForm(t, True), f"{name}_{each.function.name}__vector"
    work = [CArray("work", True)] if c.workspace else []
    parameters = ["size_t stride", *[a.declared(form) for a in (*each.parameters, *work)]]
    body = _text(wrapped(f"static void {vector}(", parameters), each, c.body, form.stride)
    workspace = ["(fl_v *)work"] if work else []
    first, rest, offset = [], [], c.workspace
    for a in each.parameters:
        entries = each.sizes[a.name]
        rest.append((a, f"work + {offset} * FL_LANES", f"{entries}, states, states - first"))
        first.append(f"{a.name} + first")
        offset += _vectors(entries)
    gather = [f"  fl_gather({at}, {a.name} + first, {n});" for a, at, n in rest if not a.written]
    scatter = [f"  fl_scatter({a.name} + first, {at}, {n});" for a, at, n in rest if a.written]
    loop = [
        "size_t first = 0;",
        "for (; first + FL_LANES <= states; first += FL_LANES) {",
        f"  {vector}(states, {', '.join([*first, *workspace])});",
        "}",
        "if (first < states) {",
        *gather,
        f"  {vector}(FL_LANES, {', '.join([*[at for _, at, _ in rest], *workspace])});",
        *scatter,
        "}",
    ]
    return [body, _text(head, each, loop)]


def _text(head: str, each: Written, body: Sequence[str], counts: Sequence[str] = ()) -> str:
    """A function. Parameters that its body does not read get a `(void)` statement."""
    names = [
        x
        for x in (*counts, *[a.name for a in each.parameters], "work")
        if re.search(rf"\b{x}\b", head)
    ]
    text = "\n".join(body)
    unused = [f"(void){x};" for x in names if not re.search(rf"\b{x}\b", text)]
    return with_body(head, [*unused, *body])


def _cmake(name: str) -> str:
    """The CMakeLists.txt of a library."""
    return f"""\
# As a part of your project: add_subdirectory(this folder), then link the target {name}.
cmake_minimum_required(VERSION 3.15)
project({name} C)

add_library({name} STATIC {name}.c)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
set_target_properties({name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON)
if(MSVC)
  target_compile_options({name} PUBLIC /fp:precise)
else()
  target_compile_options({name} PUBLIC -ffp-contract=off)
  target_link_libraries({name} PUBLIC m)
endif()

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  enable_testing()
  add_executable({name}_check {name}_check.c)
  target_link_libraries({name}_check PRIVATE {name})
  add_test(NAME {name}_check COMMAND {name}_check)
endif()
"""
