"""Functions of a library in C, before and after their code is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from featherlane.backends.c.code import Array, CCode
from featherlane.program.program import Program


class CFunction(NamedTuple):
    """A function to be written.

    name: in C, behind the name of the library; program: as `lower(program, "c", dtype)` gives it;
    about: what it computes; meanings: of its inputs and outputs, by name; inputs: arrays
    (states, *shape) on which it is checked.
    """

    name: str
    program: Program
    about: str
    meanings: Mapping[str, str]
    inputs: Mapping[str, np.ndarray]


class Written(NamedTuple):
    """A function with its C. renamed: its outputs' names in C; forms: for one state, and for many
    if they are wanted.
    """

    function: CFunction
    renamed: Mapping[str, str]
    forms: Mapping[str, CCode]

    @property
    def parameters(self) -> list[Array]:
        program = self.function.program
        inputs = [Array(name) for name in program.inputs]
        return [*inputs, *[Array(self.renamed[name], True) for name in program.outputs]]

    @property
    def sizes(self) -> dict[str, int]:
        """The entries of each argument."""
        program = self.function.program
        sizes = {name: math.prod(shape) for name, shape in program.inputs.items()}
        return sizes | {self.renamed[name]: len(out.nodes) for name, out in program.outputs.items()}


def work_constant(name: str, each: Written, suffix: str) -> str:
    """The macro with the size of a function's workspace."""
    return f"{name}_{each.function.name}{suffix}_WORK".upper()
