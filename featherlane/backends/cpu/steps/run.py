"""Step programs as machine code: a loop for each number of states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from featherlane.backends.cache import digest
from featherlane.backends.cpu.loaded import BatchEvaluator, LoadedLoop
from featherlane.backends.cpu.steps import interpreter
from featherlane.backends.cpu.steps.batching import LaneLayout, links
from featherlane.backends.cpu.steps.encode import step_program
from featherlane.backends.llvm import jit
from featherlane.program.call_list import CallList, call_list
from featherlane.program.graph import Graph, graph_key
from featherlane.program.lower import lower
from featherlane.program.program import Program
from featherlane.program.trace import no_garbage


class LoadedSteps(LoadedLoop):
    """A step program as machine code, in one dtype and layout."""

    def __init__(
        self, calls: CallList, graphs: Sequence[Graph], layout: LaneLayout, dtype: np.dtype
    ) -> None:
        """graphs: of the functions, lowered for this dtype."""
        with no_garbage():
            program = step_program(calls, layout)
        codes = [c._replace(graph=graph) for c, graph in zip(program.codes, graphs, strict=True)]
        self.program = program = program._replace(codes=codes)
        inputs = [shape for _, shape in calls.inputs]
        outputs = [shape for shape, _ in calls.outputs]
        kinds = repr([(graph_key(code.graph), code.bases) for code in codes])
        key = digest(f"{kinds} {layout} {inputs} {outputs}".encode())
        source = lambda: interpreter.source(program, inputs, outputs, dtype)
        self._arrays = program.arrays(dtype)
        words = self._arrays.addresses()
        super().__init__(f"calls {key}", source, words, dtype, inputs, outputs)


def block_length(links: int, dtype: Any) -> int:
    """The links of one lane if all links but the first, which runs before, share the lanes."""
    return max(1, -(-(links - 1) // jit.widest(np.dtype(dtype))))


class StepEvaluator(BatchEvaluator):
    """Evaluates a program of calls in one dtype on arrays (..., *core shape).

    wide: whether independent calls fill the lanes that states leave empty; block: the neighbouring
    links that one lane then gets, by default `block_length`.
    """

    def __init__(
        self, program: Program, dtype: Any, wide: bool = False, block: int | None = None
    ) -> None:
        self.inputs = list(program.inputs.values())
        self.outputs = [out.shape for out in program.outputs.values()]
        super().__init__(np.dtype(dtype), len(self.outputs[0]))
        self.wide, self.links = wide, links(self.inputs)
        self.block = block or block_length(self.links, dtype)
        with no_garbage():
            self.calls = call_list(lower(program, "cpu steps", dtype))
        of_functions = [Program(function.graph) for function in self.calls.functions]
        self.graphs = [lower(function, "cpu", dtype).main for function in of_functions]

    def _make(self, states: int) -> LoadedSteps:
        """The loop with lanes for the states alone, which takes no more memory than they need, or
        with links in the others.
        """
        blocks = -(-self.links // self.block)
        span = self.block * -(-blocks * states // self.width)
        layout = LaneLayout(self.width if self.wide else states, states, span)
        return LoadedSteps(self.calls, self.graphs, layout, self.dtype)
