"""The golden model in machine code: the integers of `evaluate.Evaluator`, for vectors of states.

The nodes of a datapath become LLVM IR on vectors of int64, one state a lane, by a table of rules
equivalent to that of `evaluate`: all integers and counts are equal. A function has BLOCK nodes, and
the values that later blocks read are in a workspace.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from featherlane.backends import cache
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import Evaluator, Results
from featherlane.backends.fixed.machine_rules import RULES, sine_cosine, tables
from featherlane.backends.fixed.vector_code import VectorCode, declarations
from featherlane.backends.llvm import jit
from featherlane.errors import CompileError
from featherlane.program.graph import graph_key
from featherlane.program.op import CONDITIONS

BLOCK = 128  # nodes: LLVM takes 1.3 times as long with 256, 2.7 times with 512
SECONDS = 6e-4  # the approximate time to compile a node
Array = Any


class MachineEvaluator:
    """A datapath as machine code, with the interface of `Evaluator`. Several threads may call it at
    once.
    """

    def __init__(self, golden: Evaluator) -> None:
        """golden: the evaluator of the datapath, which has checked it."""
        self.datapath = datapath = golden.datapath
        if ctypes.sizeof(ctypes.c_void_p) != 8:
            raise CompileError("this Python is a 32-bit program: machine code is for 64 bits")
        graph, self.clamps = datapath.graph, golden.clamps
        self.width = jit.widest(np.dtype(np.int64))
        self._plan = plan = _Plan(datapath)
        fused, clamps = sorted(datapath.fused), sorted(self.clamps)
        key = f"{graph_key(graph)} {datapath.formats} {fused} {clamps}"
        key = f"fixed {cache.digest(key.encode())} {self.width} {jit.target()}"
        text = lambda: _source(golden, plan, self.width)
        self._code = jit.MachineCode(cache.fetch(key, lambda: jit.machine_code(text())), ("loop",))
        arguments = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 4
        self._loop = ctypes.CFUNCTYPE(None, *arguments)(self._code.address)

    def __call__(self, integers: Mapping[str, Array]) -> Results:
        """Returns the outputs for inputs as integers of their formats."""
        graph, width = self.datapath.graph, self.width
        shapes = [x.shape[: x.ndim - len(graph.inputs[name])] for name, x in integers.items()]
        lead = shapes[0] if shapes else ()
        states = math.prod(lead)
        groups = -(-states // width)
        entries = sum(map(math.prod, graph.inputs.values()))
        rows = np.zeros((groups * width, entries), np.int64)
        for name, first in self._plan.inputs.items():
            count = math.prod(graph.inputs[name])
            rows[:states, first : first + count] = integers[name].reshape(states, count)
        lanes = np.ascontiguousarray(rows.reshape(groups, width, entries).swapaxes(1, 2))
        results = np.empty((groups, len(self._plan.ends), width), np.int64)
        counts = np.zeros((2, len(graph)), np.int64)
        workspace = np.empty((self._plan.slots, width), np.int64)
        last = (1 << width - (groups * width - states)) - 1
        arrays = lanes, results, counts, workspace
        self._loop(groups, last, *[x.ctypes.data for x in arrays])
        flat = results.swapaxes(1, 2).reshape(groups * width, len(self._plan.ends))[:states]
        outputs, first = {}, 0
        for name, out in graph.outputs.items():
            part = flat[:, first : first + len(out.nodes)]
            outputs[name] = part.reshape(lead + out.shape)
            first += len(out.nodes)
        overflows, clamped = (
            Counter({int(k): int(row[k]) for k in np.flatnonzero(row)}) for row in counts
        )
        return Results(outputs, overflows, clamped, Counter(), states)


class _Plan:
    """The layout of the values of a datapath: the first entry of each input, the nodes of results,
    the blocks, and the slot of the workspace of each node that another block reads.
    """

    def __init__(self, datapath: Datapath) -> None:
        graph = datapath.graph
        self.inputs, entries = dict[str, int](), 0
        for name, shape in graph.inputs.items():
            self.inputs[name] = entries
            entries += math.prod(shape)
        self.ends = [k for out in graph.outputs.values() for k in out.nodes]
        self.blocks = [
            range(first, min(first + BLOCK, len(graph))) for first in range(0, len(graph), BLOCK)
        ]
        last = {a: k // BLOCK for k, args in enumerate(graph.args) for a in args}
        last |= dict.fromkeys(self.ends, len(self.blocks))  # results are stored after all blocks
        self.slot = dict[int, int]()
        self.slots, free, ending = 0, list[int](), list[list[int]]([[] for _ in self.blocks] + [[]])
        for number, block in enumerate(self.blocks):
            for k in block:
                # Inputs and constants are read anew
                if graph.op[k] in ("input", "constant") or last.get(k, number) <= number:
                    continue
                if not free:
                    free.append(self.slots)
                    self.slots += 1
                self.slot[k] = free.pop()
                ending[last[k]].append(self.slot[k])
            free += ending[number]


def _source(golden: Evaluator, plan: _Plan, width: int) -> str:
    """The LLVM IR of `void loop(groups, last, inputs, results, counts, workspace)`, over groups of
    `width` states. last: a mask of the lanes that are states in the last group.
    """
    functions, calls = list[str](), list[str]()
    parameters = f"ptr %in, ptr %counts, ptr %w, i{width} %valid"
    for number, block in enumerate(plan.blocks):
        body = "\n".join(_block(golden, plan, block, width))
        head = f"define internal void @block{number}({parameters}) noinline"
        functions.append(f"{head} {{\n{body}\nret void\n}}\n")
        calls.append(f"call void @block{number}({parameters})")
    results = _stores(golden.datapath, plan, width)
    end = _loop_end(golden.datapath, plan, width)
    loop = "\n".join([*_loop_head(width), *calls, *results, *end])
    return "\n".join([*tables(golden.datapath), *declarations(width), *functions, loop])


def _loop_head(width: int) -> list[str]:
    """The beginning of the loop: it counts groups, and tells which lanes of one are states."""
    return [
        "define void @loop(i64 %groups, i64 %last, ptr %in0, ptr %out0, ptr %counts, ptr %w) {",
        "%some = icmp sgt i64 %groups, 0",
        "br i1 %some, label %group, label %end",
        "group:",
        "%g = phi i64 [0, %0], [%next, %group]",
        "%in = phi ptr [%in0, %0], [%in.next, %group]",
        "%out = phi ptr [%out0, %0], [%out.next, %group]",
        "%left = sub i64 %groups, %g",
        "%is_last = icmp eq i64 %left, 1",
        "%states = select i1 %is_last, i64 %last, i64 -1",
        f"%valid = trunc i64 %states to i{width}",
    ]


def _stores(datapath: Datapath, plan: _Plan, width: int) -> list[str]:
    """The instructions that store the results of a group, after all blocks."""
    t = VectorCode(width)
    names = {k: _read(t, datapath, plan, k) for k in set(plan.ends)}
    for i, k in enumerate(plan.ends):
        t.store(names[k], "%out", i * width)
    return t.lines


def _loop_end(datapath: Datapath, plan: _Plan, width: int) -> list[str]:
    """The end of the loop: the inputs and results of the next group."""
    entries = sum(map(math.prod, datapath.graph.inputs.values()))
    return [
        f"%in.next = getelementptr i64, ptr %in, i64 {entries * width}",
        f"%out.next = getelementptr i64, ptr %out, i64 {len(plan.ends) * width}",
        "%next = add i64 %g, 1",
        "%more = icmp slt i64 %next, %groups",
        "br i1 %more, label %group, label %end",
        "end:",
        "ret void\n}\n",
    ]


def _block(golden: Evaluator, plan: _Plan, block: range, width: int) -> list[str]:
    """The instructions of some nodes, which read values of earlier blocks from the workspace, and
    store the values that later blocks read.
    """
    datapath, graph = golden.datapath, golden.datapath.graph
    t, names, pairs = VectorCode(width), dict[int, str](), dict[Any, tuple[str, str]]()

    def named(k: int) -> str:
        if k not in names:
            names[k] = _read(t, datapath, plan, k)
        return names[k]

    for k in block:
        op, args = graph.op[k], graph.args[k]
        if op in ("input", "constant"):
            continue
        operands = [named(a) for a in args]
        if op in ("sin", "cos"):
            pair = args[0], datapath.format(k)
            if pair not in pairs:
                pairs[pair] = sine_cosine(t, operands[0], datapath.format(args[0]), pair[1])
            names[k] = pairs[pair][op == "cos"]
        elif op in CONDITIONS or k in datapath.fused:
            names[k] = RULES[op](t, datapath, k, operands)
        else:
            exact = RULES[op](t, datapath, k, operands)
            above = 64 - datapath.format(k).width
            names[k] = t.shifted(t.shifted(exact, above), -above)
            t.count(t.compared("ne", names[k], exact), "%counts", k)
        if (condition := golden.clamps.get(k)) is not None:
            t.count(named(condition), "%counts", len(graph) + k)
        if k in plan.slot:
            value = names[k]
            if op in CONDITIONS:
                value = t.put(f"zext {t.mask} {value} to {t.vector}")
            t.store(value, "%w", plan.slot[k] * width)
    return t.lines


def _read(t: VectorCode, datapath: Datapath, plan: _Plan, k: int) -> str:
    """Reads a value: an input, a constant, or a slot of the workspace."""
    graph, value = datapath.graph, datapath.graph.value[k]
    if graph.op[k] == "constant":
        return t.splat(round(value / datapath.format(k).step))
    if graph.op[k] == "input":
        return t.load("%in", (plan.inputs[value[0]] + value[1]) * t.width)
    loaded = t.load("%w", plan.slot[k] * t.width)
    return t.compared("ne", loaded, 0) if graph.op[k] in CONDITIONS else loaded
