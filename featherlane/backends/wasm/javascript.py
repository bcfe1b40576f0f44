"""Functions in JavaScript, which compute with numbers, for browsers without vectors in WebAssembly.
In float32 each operation is rounded by Math.fround, which gives the bits of single precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from featherlane.backends.wasm.code import ArgumentAccess, code
from featherlane.backends.wasm.writer import CodeWriter
from featherlane.program.program import Program

EXPRESSIONS = {
    "neg": "-{0}",
    "abs": "Math.abs({0})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "sqrt": "Math.sqrt({0})",
    "round": "round({0})",
    "quarter": "quarter({0}, {1}, {2})",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "power_of_two": "powerOfTwo({0})",
    "exponent": "exponent({0})",
    "copysign": "copysign({0}, {1})",
    "select": "{0} ? {1} : {2}",
}
ROUNDED = ("add", "sub", "mul", "div", "sqrt")

HELPERS = """\
const number = new {array}(1), word = new Uint32Array(number.buffer);  // its last word has the sign
function round(x) {{  // to the nearest integer, halves to even
  const a = Math.abs(x), r = {r}({r}(a + {big}) - {big});
  return x === 0 || !(a < {big}) ? x : x < 0 ? -r : r;
}}
function quarter(k, s, c) {{  // the sine of an angle, k quarter turns beyond that of s and c
  const x = k & 1 ? c : s;
  return k & 2 ? -x : x;
}}
function powerOfTwo(k) {{
  word.fill(0);
  word[{last}] = k + {bias} << {shift};
  return number[0];
}}
function exponent(x) {{
  number[0] = x;
  return (word[{last}] >>> {shift} & {ones}) - {bias};
}}
function copysign(x, y) {{
  number[0] = y;
  return word[{last}] >>> 31 ? -Math.abs(x) : Math.abs(x);
}}
"""


class Type(NamedTuple):
    """A type of numbers in JavaScript. array: the typed array of them; the rest fills HELPERS."""

    dtype: np.dtype
    array: str
    rounded: str
    big: int
    last: int
    bias: int
    shift: int

    def number(self, x: float) -> str:
        with np.errstate(over="ignore"):
            value = float(self.dtype.type(x))
        if math.isfinite(value):
            return f"({value!r})" if math.copysign(1.0, value) < 0 else repr(value)
        return "NaN" if math.isnan(value) else f"({'-' if value < 0 else ''}Infinity)"

    def helpers(self) -> str:
        return HELPERS.format(**self._asdict() | {"r": self.rounded, "ones": 2 * self.bias + 1})


TYPES = {
    np.dtype(np.float64): Type(
        np.dtype(np.float64), "Float64Array", "", 2**52, last=1, bias=1023, shift=20
    ),
    np.dtype(np.float32): Type(
        np.dtype(np.float32), "Float32Array", "Math.fround", 2**23, last=0, bias=127, shift=23
    ),
}


class JavaScriptForm(CodeWriter[str]):
    """JavaScript whose memory is the typed array m."""

    unit = 1

    def __init__(self, kind: Type, first: int) -> None:
        """first: the number of the first function."""
        self.kind, self.first = kind, first
        self.functions: list[str] = []

    def joined(self, parts: Iterable[str]) -> str:
        return "".join(parts)

    def number(self, x: float) -> str:
        return self.kind.number(x)

    def load(self, address: int) -> str:
        return f"m[{address}]"

    def store(self, address: int, value: str) -> str:
        return f"m[{address}]={value};\n"

    def store_behind(self, offset: int, value: str) -> str:
        return f"m[t0+{offset}]={value};\n"

    def operation(self, op: str, operands: list[str], scratch: int) -> str:
        value = EXPRESSIONS[op].format(*operands)
        return f"{self.kind.rounded}({value})" if op in ROUNDED else f"({value})"

    def keep(self, local: int, value: str) -> str:
        return f"const t{local}={value};\n"

    def local(self, local: int) -> str:
        return f"t{local}"

    def function(self, parameters: int, body: str, locals_: int = 0) -> int:
        number = self.first + len(self.functions)
        names = ",".join(["m", *[f"t{n}" for n in range(parameters)]])
        self.functions.append(f"function f{number}({names}){{\n{body}}}\n")
        return number

    def call(self, function: int, parameters: int) -> str:
        return f"f{function}({','.join(['m', *[f't{n}' for n in range(parameters)]])});\n"

    def call_to(self, function: int, address: int) -> str:
        return f"f{function}(m,{address});\n"


class Scripted(NamedTuple):
    """A function in JavaScript. definitions: its blocks and the function of one state, `name`;
    size: numbers of the array m, which begins with the inputs and the outputs.
    """

    definitions: list[str]
    name: str
    size: int


def script(program: Program, kind: Type, first: int) -> Scripted:
    """A program as a function of an array m. first: the number of its first part."""
    form, graph, at = JavaScriptForm(kind, first), program.main, 0
    begin: dict[str, int] = {}
    for name, shape in graph.inputs.items():
        begin[name], at = at, at + math.prod(shape)
    stored: dict[int, list[Callable[[str], str]]] = {}
    for out in graph.outputs.values():
        for k in out.nodes:
            stored.setdefault(k, []).append(partial(form.store, at))
            at += 1
    access = ArgumentAccess(lambda value: form.load(begin[value[0]] + value[1]), stored, 0)
    code_of_program = code(program, form, access, at)
    whole = form.function(0, code_of_program.body)
    return Scripted(form.functions, f"f{whole}", code_of_program.end)
