"""The golden model in machine code: the integers of `evaluate.Evaluator`, for vectors of states.

The nodes of a datapath become LLVM IR on vectors of int64, one state a lane, by a table of rules
equivalent to that of `evaluate`: all integers and counts are equal. A function has BLOCK nodes, and
the values that later blocks read are in a workspace.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from featherlane.backends import cache
from featherlane.backends.fixed import units
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import WIDEST, Evaluator, Results
from featherlane.backends.fixed.formats import Format
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


# LLVM IR


class _Lines:
    """Instructions on vectors of int64. Each method adds some and returns the name of the
    result.
    """

    def __init__(self, width: int) -> None:
        self.width, self.lines = width, list[str]()
        self.vector, self.mask = f"<{width} x i64>", f"<{width} x i1>"
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def put(self, text: str) -> str:
        """Adds an instruction, and returns the name of its result."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def splat(self, x: int) -> str:
        return "<" + ", ".join([f"i64 {x}"] * self.width) + ">"

    def op(self, name: str, a: str, b: str | int) -> str:
        return self.put(f"{name} {self.vector} {a}, {self.splat(b) if isinstance(b, int) else b}")

    def add(self, a: str, b: str | int) -> str:
        return self.op("add", a, b)

    def sub(self, a: str, b: str | int) -> str:
        return self.op("sub", a, b)

    def mul(self, a: str, b: str | int) -> str:
        return self.op("mul", a, b)

    def bits(self, a: str, mask: int) -> str:
        return self.op("and", a, mask)

    def shifted(self, a: str, left: int) -> str:
        """a 2^left, rounded down."""
        if left == 0:
            return a
        return self.op("shl", a, left) if left > 0 else self.op("ashr", a, min(-left, 63))

    def near(self, a: str, shift: int) -> str:
        """`units.near`."""
        return self.shifted(self.add(a, 1 << shift - 1), -shift) if shift else a

    def minus(self, a: str) -> str:
        return self.op("sub", "zeroinitializer", a)

    def compared(self, how: str, a: str, b: str | int) -> str:
        return self.op(f"icmp {how}", a, b)

    def where(self, condition: str, a: str, b: str) -> str:
        return self.put(f"select {self.mask} {condition}, {self.vector} {a}, {self.vector} {b}")

    def call(self, intrinsic: str, *args: str) -> str:
        return self.put(f"call {self.vector} @llvm.{intrinsic}.v{self.width}i64({', '.join(args)})")

    def least(self, a: str, most: int) -> str:
        return self.call("smin", f"{self.vector} {a}", f"{self.vector} {self.splat(most)}")

    def magnitude(self, a: str) -> str:
        return self.call("abs", f"{self.vector} {a}", "i1 false")

    def entry(self, table: str, index: str) -> str:
        """The entries of a global table."""
        w = self.width
        addresses = self.put(f"getelementptr i64, ptr @{table}, {self.vector} {index}")
        ones = "<" + ", ".join(["i1 true"] * w) + ">"
        return self.put(
            f"call {self.vector} @llvm.masked.gather.v{w}i64.v{w}p0(<{w} x ptr> {addresses}, "
            f"i32 8, {self.mask} {ones}, {self.vector} zeroinitializer)"
        )

    def address(self, base: str, index: int) -> str:
        return self.put(f"getelementptr i64, ptr {base}, i64 {index}")

    def load(self, base: str, index: int) -> str:
        return self.put(f"load {self.vector}, ptr {self.address(base, index)}, align 8")

    def store(self, a: str, base: str, index: int) -> None:
        place = self.address(base, index)
        self.lines.append(f"store {self.vector} {a}, ptr {place}, align 8")

    def count(self, condition: str, base: str, index: int) -> None:
        """Adds the number of valid states in which a condition holds."""
        w = self.width
        held = self.put(f"bitcast {self.mask} {condition} to i{w}")
        held = self.put(f"and i{w} {held}, %valid")
        ones = self.put(f"call i{w} @llvm.ctpop.i{w}(i{w} {held})")
        wide = self.put(f"zext i{w} {ones} to i64")
        place = self.address(base, index)
        before = self.put(f"load i64, ptr {place}, align 8")
        after = self.put(f"add i64 {before}, {wide}")
        self.lines.append(f"store i64 {after}, ptr {place}, align 8")


Rule = Callable[[_Lines, Datapath, int, Sequence[str]], str]


def _negative(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    opposite = lambda t, a: t.sub(t.splat(datapath.half(k)), a)
    return _of_one(opposite)(t, datapath, k, names)


def _of_one(change: Callable[[_Lines, str], str]) -> Rule:
    def rule(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        (a,) = datapath.graph.args[k]
        return t.shifted(
            change(t, names[0]), datapath.format(k).fraction - datapath.format(a).fraction
        )

    return rule


def _sum(op: str) -> Rule:
    def rule(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        fa, fb = (datapath.format(a).fraction for a in datapath.graph.args[k])
        g = max(fa, fb)
        left = datapath.format(k).fraction - g
        half = datapath.half(k)
        cut = min(-left - bool(half), g - min(fa, fb)) if left < 0 else 0
        x, y = names
        if op == "sub":
            y = t.minus(y)  # before it is cut, as cuts round down
        total = t.add(t.shifted(x, g - fa - cut), t.shifted(y, g - fb - cut))
        if half >> cut:
            total = t.add(total, half >> cut)
        return t.shifted(total, left + cut)

    return rule


def _product(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    args, f = datapath.graph.args[k], datapath.format(k).fraction
    for n, operand in enumerate(args):
        if datapath.graph.op[operand] == "power_of_two":
            fraction = datapath.format(args[1 - n]).fraction
            return _scaled(t, names[n], names[1 - n], f - fraction)
    fa, fb = (datapath.format(a).fraction for a in args)
    product, right = t.mul(*names), fa + fb - f
    if right <= 0:
        return t.shifted(product, -right)
    return t.shifted(t.add(t.shifted(product, 1 - right), 1), -1)


def _scaled(t: _Lines, power: str, x: str, more: int) -> str:
    left = t.add(power, more)
    none, most = f"{t.vector} zeroinitializer", f"{t.vector} {t.splat(63)}"
    right = t.call("smax", f"{t.vector} {t.minus(left)}", none)
    right = t.call("smin", f"{t.vector} {right}", most)
    up = t.call("smax", f"{t.vector} {left}", none)
    up = t.least(up, WIDEST - 1)
    wide = t.op("ashr", t.op("shl", x, up), right)
    lost = t.compared("sge", left, WIDEST)
    some = t.compared("ne", x, 0)
    both = t.put(f"and {t.mask} {lost}, {some}")
    return t.where(both, t.splat(1 << 62), wide)


def _exponent(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    f = datapath.format(datapath.graph.args[k][0]).fraction
    zeros = t.call("ctlz", f"{t.vector} {t.magnitude(names[0])}", "i1 false")
    return t.op("sub", t.splat(63 - f), zeros)


def _select(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    _, *args = datapath.graph.args[k]
    f = datapath.format(k).fraction
    x, y = (
        t.shifted(name, f - datapath.format(a).fraction)
        for name, a in zip(names[1:], args, strict=True)
    )
    return t.where(names[0], x, y)


def _compared(how: str, strictly: bool) -> Rule:
    def rule(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
        a, b = (datapath.format(x).fraction for x in datapath.graph.args[k])
        up = lambda x, n: t.minus(t.shifted(t.minus(x), -n)) if n else x
        down = lambda x, n: t.shifted(x, -n)
        first, second = (down, up) if strictly else (up, down)
        x = first(names[0], min(max(a - b, 0), 63))
        return t.compared(how, x, second(names[1], min(max(b - a, 0), 63)))

    return rule


def _reciprocal(t: _Lines, datapath: Datapath, k: int, names: Sequence[str]) -> str:
    """`units.reciprocal`, line by line."""
    operand, out = datapath.format(datapath.graph.args[k][1]), datapath.format(k)
    h, f, a = units.Reciprocal.of(operand, out).h, operand.fraction, names[1]
    m, ones = t.magnitude(a), (1 << f) - 1
    beyond = t.compared("ne", t.shifted(m, -(f + 1)), 0)
    j = t.where(beyond, t.splat(ones), t.bits(m, ones))
    i = t.shifted(j, units.INDEX - f)
    seed = t.entry("reciprocals", i)
    error = t.op("sub", t.splat(1 << f + units.SEED), t.mul(t.add(j, 1 << f), seed))
    e = t.near(error, f + units.SEED - h)
    square = t.near(e, 8)
    z = t.add(e, t.near(t.mul(square, square), h - 16))
    y = t.near(t.add(t.shifted(seed, h), t.mul(seed, z)), h + units.SEED - out.fraction)
    return t.least(t.where(t.compared("slt", a, 0), t.minus(y), y), out.most)


def _sine_cosine(t: _Lines, a: str, angle: Format, out: Format) -> tuple[str, str]:
    """`units.sine_cosine`, line by line."""
    n = units.SineCosine.of(angle, out)
    if n.shift < 16:
        u = t.near(t.mul(a, n.turn), n.shift)
    else:
        low = t.add(t.mul(a, n.turn & 0xFFFF), 1 << n.shift - 1)
        u = t.shifted(t.add(t.mul(a, n.turn >> 16), t.shifted(low, -16)), 16 - n.shift)
    rest = n.phase - units.INDEX
    k = t.bits(t.shifted(u, -n.phase), 3)
    i = t.bits(t.shifted(u, -rest), (1 << units.INDEX) - 1)
    d = t.sub(t.bits(u, (1 << rest) - 1), 1 << rest - 1)
    table = f"sines{n.g}"
    s = t.entry(table, i)
    c = t.entry(table, t.op("sub", t.splat((1 << units.INDEX) - 1), i))
    x = t.near(t.mul(d, n.arc), n.arc_shift)
    sine = t.add(s, t.near(t.mul(t.shifted(c, -8), x), n.g - 8))
    cosine = t.sub(c, t.near(t.mul(t.shifted(s, -8), x), n.g - 8))
    if n.second:
        short = t.shifted(x, -8)
        half = t.near(t.mul(short, short), n.g - 15)
        sine = t.sub(sine, t.near(t.mul(t.shifted(s, -18), half), n.g - 18))
        cosine = t.sub(cosine, t.near(t.mul(t.shifted(c, -18), half), n.g - 18))
    sine, cosine = (t.near(y, n.g - out.fraction) for y in (sine, cosine))
    swapped = t.compared("ne", t.bits(k, 1), 0)
    first, second = t.where(swapped, cosine, sine), t.where(swapped, sine, cosine)
    first = t.where(t.compared("sge", k, 2), t.minus(first), first)
    middle = t.compared("ult", t.sub(k, 1), 2)
    second = t.where(middle, t.minus(second), second)
    return t.least(first, out.most), t.least(second, out.most)


RULES: dict[str, Rule] = {
    "neg": _negative,
    "abs": _of_one(lambda t, a: t.magnitude(a)),
    "power_of_two": _of_one(lambda t, a: a),
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": _product,
    "div": _reciprocal,
    "exponent": _exponent,
    "select": _select,
    "less": _compared("slt", True),
    "less_equal": _compared("sle", False),
}


def _source(golden: Evaluator, plan: _Plan, width: int) -> str:
    """The LLVM IR of `void loop(groups, last, inputs, results, counts, workspace)`, over groups of
    `width` states. last: a mask of the lanes that are states in the last group.
    """
    calls, functions = list[str](), list[str]()
    parameters = f"ptr %in, ptr %counts, ptr %w, i{width} %valid"
    for number, block in enumerate(plan.blocks):
        body = "\n".join(_block(golden, plan, block, width))
        head = f"define internal void @block{number}({parameters}) noinline"
        functions.append(f"{head} {{\n{body}\nret void\n}}\n")
        calls.append(f"call void @block{number}({parameters})")
    store = _Lines(width)
    names = {k: _read(store, golden.datapath, plan, k) for k in set(plan.ends)}
    for i, k in enumerate(plan.ends):
        store.store(names[k], "%out", i * width)
    entries = sum(map(math.prod, golden.datapath.graph.inputs.values()))
    ahead = [
        f"%in.next = getelementptr i64, ptr %in, i64 {entries * width}",
        f"%out.next = getelementptr i64, ptr %out, i64 {len(plan.ends) * width}",
        "%next = add i64 %g, 1",
        "%more = icmp slt i64 %next, %groups",
        "br i1 %more, label %group, label %end",
    ]
    loop = "\n".join(
        [
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
            *calls,
            *store.lines,
            *ahead,
            "end:",
            "ret void\n}\n",
        ]
    )
    return "\n".join([*_tables(golden.datapath), *_declared(width), *functions, loop])


def _block(golden: Evaluator, plan: _Plan, block: range, width: int) -> list[str]:
    """The instructions of some nodes, which read values of earlier blocks from the workspace, and
    store the values that later blocks read.
    """
    datapath, graph = golden.datapath, golden.datapath.graph
    t, names, pairs = _Lines(width), dict[int, str](), dict[Any, tuple[str, str]]()

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
                pairs[pair] = _sine_cosine(t, operands[0], datapath.format(args[0]), pair[1])
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


def _read(t: _Lines, datapath: Datapath, plan: _Plan, k: int) -> str:
    """Reads a value: an input, a constant, or a slot of the workspace."""
    graph, value = datapath.graph, datapath.graph.value[k]
    if graph.op[k] == "constant":
        return t.splat(round(value / datapath.format(k).step))
    if graph.op[k] == "input":
        return t.load("%in", (plan.inputs[value[0]] + value[1]) * t.width)
    loaded = t.load("%w", plan.slot[k] * t.width)
    return t.compared("ne", loaded, 0) if graph.op[k] in CONDITIONS else loaded


def _tables(datapath: Datapath) -> list[str]:
    """The tables of the units of a datapath."""
    graph, tables = datapath.graph, {"reciprocals": units.reciprocal_table()}
    for k in (*graph.nodes_of("sin"), *graph.nodes_of("cos")):
        g = units.SineCosine.of(datapath.format(graph.args[k][0]), datapath.format(k)).g
        tables[f"sines{g}"] = units.sine_table(g)
    return [
        f"@{name} = internal constant [{len(table)} x i64] [{', '.join(f'i64 {x}' for x in table)}]"
        for name, table in tables.items()
    ]


def _declared(width: int) -> list[str]:
    vector, mask = f"<{width} x i64>", f"<{width} x i1>"
    name = lambda intrinsic: f"declare {vector} @llvm.{intrinsic}.v{width}i64"
    return [
        *(f"{name(x)}({vector}, {vector})" for x in ("smin", "smax")),
        *(f"{name(x)}({vector}, i1)" for x in ("abs", "ctlz")),
        f"{name('masked.gather')}.v{width}p0(<{width} x ptr>, i32, {mask}, {vector})",
        f"declare i{width} @llvm.ctpop.i{width}(i{width})",
    ]
