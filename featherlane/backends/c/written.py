"""Functions of a library in C: their specification, and their code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.c.code import CArray, CCode
from featherlane.program.program import Program


class CFunction(NamedTuple):
    """The specification of a function.

    name: in C, without the prefix of the library; program: the result of `lower(program, "c",
    dtype)`; about: a description; meanings: of its inputs and outputs, by name; inputs: arrays
    (states, *shape) on which it is checked.
    """

    name: str
    program: Program
    about: str
    meanings: Mapping[str, str]
    inputs: Mapping[str, np.ndarray]


class Written(NamedTuple):
    """A function with its C code. renamed: the names of its outputs in C; forms: the code for one
    state, and for many states if the library has it, by suffix.
    """

    function: CFunction
    renamed: Mapping[str, str]
    forms: Mapping[str, CCode]

    @property
    def parameters(self) -> list[CArray]:
        program = self.function.program
        inputs = [CArray(name) for name in program.inputs]
        return [*inputs, *[CArray(self.renamed[name], True) for name in program.outputs]]

    @property
    def sizes(self) -> dict[str, int]:
        """The entries of each argument."""
        program = self.function.program
        sizes = {name: math.prod(shape) for name, shape in program.inputs.items()}
        return sizes | {self.renamed[name]: len(out.nodes) for name, out in program.outputs.items()}


def work_constant(name: str, each: Written, suffix: str) -> str:
    """The macro with the size of a function's workspace."""
    return f"{name}_{each.function.name}{suffix}_WORK".upper()
