"""Errors of traces: they name the expression of a user's function that no graph can compute, with
its file and line, and what to write instead.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from dis import opname
from itertools import islice
from linecache import getlines
from traceback import walk_tb
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

PACKAGE = os.path.dirname(os.path.dirname(__file__))
NOT_THE_USERS = (
    *(os.path.join(folder, "") for folder in (PACKAGE, os.path.dirname(np.__file__))),
    *("<__array", "<frozen"),
)
CHOICE = "write np.where(a < b, x, y) or featherlane.select(a < b, x, y)"
LOGIC = "write &, | and ~ of conditions, np.all and np.any"
ENDS = "write np.minimum(x, y), np.maximum(x, y), np.min(x) or np.max(x)"
ENTRY = "write np.sum(np.where(k == np.arange(n), x, 0.0)) in place of x[k]"
STORED = "make the array with np.stack([x, y]) or np.zeros_like(q), which hold traced values"
NUMBER = "leave it out: traced values count as numbers"
LISTED = (
    "docs/traces.md lists the functions of NumPy that traces have; in place of np.array([x, y]) "
    "write np.stack([x, y])"
)
ROUNDS = "rounds are counted while tracing: write their number"
OTHERS = f"use functions of NumPy or of featherlane (np.sin, featherlane.sin); {CHOICE}"
OF_CALLS = {
    **dict.fromkeys(("max", "min", "sorted"), ENDS),
    **dict.fromkeys(("any", "all", "bool"), LOGIC),
    **dict.fromkeys(("float", "int", "complex", "operator.index"), NUMBER),
    **dict.fromkeys(("np.array", "np.asarray", "np.full", "numpy.array", "numpy.asarray"), STORED),
    **dict.fromkeys(("np.take", "numpy.take"), ENTRY),
    "range": ROUNDS,
    "round": "write np.rint(x)",
}


class Spot(NamedTuple):
    """An instruction of the user's function."""

    code: CodeType
    instruction: int
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.code.co_filename)}, line {self.line}"


def refused(message: str) -> TypeError:
    """The error with a message and the line of the user's function that caused it."""
    spot = _innermost()
    return TypeError(message if spot is None else f"{message} ({spot})")


def no_value() -> TypeError:
    """The error for an expression that asks for the value of a traced scalar."""
    spot = _innermost()
    met, advice = ("", OTHERS) if spot is None else _met(spot)
    asks = f"{met} asks for the value of a traced scalar" if met else "a value was asked for"
    return refused(f"{asks}, which is not known while tracing: {advice}")


def of_numpy(error: Exception) -> TypeError | None:
    """The error in place of one that NumPy raises for arrays of traced values, which are arrays of
    objects to it; None for all other errors.
    """
    if not OF_OBJECTS.search(str(error)):
        return None
    spots = [
        Spot(frame.f_code, frame.f_lasti, line)
        for frame, line in walk_tb(error.__traceback__)
        if not _is_hidden(frame.f_code.co_filename)
    ]
    met, advice = _met(spots[-1]) if spots else ("", OTHERS)
    place = f" ({spots[-1]})" if spots else ""
    return TypeError(f"{met or 'NumPy'} cannot take traced values: {advice}{place}; NumPy: {error}")


OF_OBJECTS = re.compile(r"dtype\('O'\)|object_|object arrays|indices|for the input types")


def _is_hidden(path: str) -> bool:
    """Whether a file is of this package or of NumPy, or compiled."""
    return path.startswith(NOT_THE_USERS) or path.endswith(".pyx")


def _innermost() -> Spot | None:
    """The instruction of the innermost function outside of this package and of NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame and _is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else Spot(frame.f_code, frame.f_lasti, frame.f_lineno)


def _met(spot: Spot) -> tuple[str, str]:
    """Describes an instruction in words, and what to write in its place."""
    position = next(islice(spot.code.co_positions(), spot.instruction // 2, None), ())
    try:
        tree = ast.parse("".join(getlines(spot.code.co_filename)))
    except SyntaxError:  # a notebook's cell, say, with commands that are no Python
        return _of_opcode(spot)
    for node in ast.walk(tree):
        if _span(node) == position:
            description = _of_expression(node)
        elif any(_span(child) == position for child in ast.iter_child_nodes(node)):
            description = _of_test(node)
        else:
            continue
        if description is not None:
            return description
    return _of_opcode(spot)


def _of_opcode(spot: Spot) -> tuple[str, str]:
    """Describes an instruction whose source text is not known."""
    name = opname[spot.code.co_code[spot.instruction]]
    asks = name.startswith(("POP_JUMP", "JUMP_IF", "TO_BOOL"))
    return ("`if`, `while`, `and` or `or`", CHOICE) if asks else ("", OTHERS)


def _span(node: ast.AST) -> tuple[int | None, ...]:
    """The position of a node in the form of `co_positions`."""
    names = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    return tuple(getattr(node, name, None) for name in names)


def _of_expression(node: ast.AST) -> tuple[str, str] | None:
    """Describes a call, an index, or a logical operator that asks whether its operands are true."""
    if isinstance(node, ast.BoolOp | ast.UnaryOp):
        return _of_test(node)
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        module, _, function = name.rpartition(".")
        if module == "math":
            known = hasattr(np, NAMES.get(function, function))
            instead = f"write np.{NAMES.get(function, function)}" if known else OTHERS
            return f"{name}()", instead
        of_numpy = module.partition(".")[0] in ("np", "numpy")
        return f"{name}()", OF_CALLS.get(name, LISTED if of_numpy else OTHERS)
    if isinstance(node, ast.FormattedValue | ast.JoinedStr):
        return "a formatted text", "print the results of the compiled function"
    if isinstance(node, ast.Subscript):
        stored = isinstance(node.ctx, ast.Store)
        text = ast.unparse(node)
        if isinstance(node.slice, ast.Compare | ast.BoolOp):
            return (f"{text} = ..." if stored else text), CHOICE
        return (f"{text} = ...", STORED) if stored else (f"the index of {text}", ENTRY)
    return None


# Functions of math that NumPy has under another name
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}


def _of_test(node: ast.AST) -> tuple[str, str] | None:
    """Describes the statement or operator that asks whether one of its expressions is true."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert | ast.comprehension):
        words = {ast.While: "while", ast.Assert: "assert"}
        return f"`{words.get(type(node), 'if')}`", CHOICE
    if isinstance(node, ast.BoolOp):
        return f"`{'and' if isinstance(node.op, ast.And) else 'or'}`", LOGIC
    return ("`not`", LOGIC) if isinstance(node, ast.UnaryOp) else None
