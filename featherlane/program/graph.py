"""The dataflow graph: a flat list of nodes in evaluation order, interned and folded on entry.

Folding uses what is true of real numbers and costs no accuracy: 0, 1, -1, constants, signs, x - x,
x / x. So what an algorithm multiplies by an axis, a fixed base or an absent force is not there, and
no algorithm needs to branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from featherlane.program.cost import Cost, cost
from featherlane.program.op import ARITHMETIC, COMMUTES, CONDITIONS, OPS, Op
from featherlane.scalar import sine_cosine


class Output(NamedTuple):
    shape: tuple[int, ...]
    nodes: tuple[int, ...]  # in C order


class Graph:
    """A dataflow graph: numbered nodes, of which node k uses nodes before k only.

    op[k] names the operation of node k, a row of the table, and args[k] its operands. value[k] is
    the number of a constant, the (name, position) of an input entry, the number of the function of
    a call, or the number of a result among those of its call. tag[k] says where in the algorithm
    the node was first computed. The results of a call are the nodes after it. facts[k], for some
    nodes, are bounds that the algorithm states (`scalar.within`), and `systems` are the linear
    systems that it solves (`derivatives.implicit`); copies may leave both out.

    Examples:
        >>> graph = fl.trace(lambda x: x @ x, {"x": 3})
        >>> graph
        <Graph (x[3]) -> (out[]): 8 nodes>
        >>> print(graph)
        <Graph (x[3]) -> (out[]): 8 nodes>
        5 operations (3 mul, 2 add), depth 3, at most 2 live values
        text() has a line for each node
    """

    def __init__(self) -> None:
        self.op: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.value: list[Any] = []
        self.tag: list[Any] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.outputs: dict[str, Output] = {}
        self.facts: dict[int, tuple[float, float]] = {}
        self.systems: list[Any] = []
        self.current_tag: Any = None

    def __len__(self) -> int:
        return len(self.op)

    def __repr__(self) -> str:
        shape = ", ".join(f"{name}{list(size)}" for name, size in self.inputs.items())
        gives = ", ".join(f"{name}{list(out.shape)}" for name, out in self.outputs.items())
        return f"<Graph ({shape}) -> ({gives}): {len(self)} nodes>"

    def __str__(self) -> str:
        """A summary: inputs and outputs, operations and depth."""
        return f"{self!r}\n{self.cost()}\ntext() has a line for each node"

    def text(self) -> str:
        """The graph as text: a line for each node, with number, operation, operands and tag, and
        one for each output.

        Examples:
            >>> print(fl.trace(lambda x: x * x + 1, {"x": ()}).text())
            %0 = input x[0]
            %1 = mul %0 %0
            %2 = constant 1.0
            %3 = add %1 %2
            out = %3
        """
        show = {"constant": repr, "input": lambda v: f"{v[0]}[{v[1]}]", "call": "f{}".format}
        lines = []
        for k, (op, args, value, tag) in enumerate(
            zip(self.op, self.args, self.value, self.tag, strict=True)
        ):
            shown = [] if value is None else [show.get(op, str)(value)]
            operands = " ".join(shown + [f"%{a}" for a in args])
            lines.append(f"%{k} = {op} {operands}" + (f"  ; {tag}" if tag is not None else ""))
        lines += [
            f"{name} = {' '.join(f'%{k}' for k in out.nodes)}" for name, out in self.outputs.items()
        ]
        return "\n".join(lines)

    # Entry of nodes: `node` and `call` intern, the methods after them fold

    @cached_property
    def _known(self) -> dict[Any, int]:
        """The nodes by what they are; a graph that is only read needs no such table."""
        return {key: k for k, key in enumerate(zip(self.op, self.args, self.value, strict=True))}

    def node(self, op: str, *args: int, value: Any = None) -> int:
        """Returns the node of an operation, a new one unless the graph has it; folds nothing."""
        if op in COMMUTES and args[0] > args[1]:
            args = args[1], args[0]
        key = (op, args, value)
        known = self._known.get(key)
        if known is not None:
            return known
        k = self._known[key] = len(self.op)
        self.op.append(op)
        self.args.append(args)
        self.value.append(value)
        self.tag.append(self.current_tag)
        return k

    def call(self, function: int, operands: Sequence[int], count: int) -> int:
        """The node of a call; its `count` results are the nodes after it."""
        key = ("call", tuple(operands), function)
        k = self._known.get(key)
        if k is None:
            k = self._known[key] = len(self.op)
            self.op += ["call", *["result"] * count]
            self.args += [key[1], *[(k,)] * count]
            self.value += [function, *range(count)]
            self.tag += [self.current_tag] * (count + 1)
        return k

    def nodes_of(self, op: str) -> list[int]:
        """The nodes of an operation, in their order."""
        nodes, k = list[int](), -1
        with suppress(ValueError):  # most nodes of long programs are results: no step for each
            while True:
                k = self.op.index(op, k + 1)
                nodes.append(k)
        return nodes

    def results(self, k: int) -> range:
        """The nodes of the results of a call."""
        op, end, length = self.op, k + 1, len(self.op)
        while end < length and op[end] == "result":
            end += 1
        return range(k + 1, end)

    def constant(self, x: float) -> int:
        """Returns the node of a number; -0.0 is the node of 0.0."""
        x = float(x) + 0.0  # -0.0 is 0.0
        return self.node("constant", value="nan" if math.isnan(x) else x)

    def state(self, k: int, low: float, high: float) -> None:
        """States bounds of a node, which narrow those that were stated before; of -x, as of x."""
        if self.op[k] == "neg":
            return self.state(self.args[k][0], -high, -low)
        first, last = self.facts.get(k, (low, high))
        self.facts[k] = max(low, first), min(high, last)
        return None

    def number(self, k: int) -> float | None:
        """The number that a node is known to be, or None."""
        return self.value[k] if self.op[k] == "constant" and self.value[k] != "nan" else None

    def declare(self, name: str, shape: Sequence[int]) -> list[int]:
        """A new input array, its entries in C order."""
        if name in self.inputs:
            raise ValueError(f"input {name!r} is declared twice")
        self.inputs[name] = tuple(shape)
        return [self.node("input", value=(name, i)) for i in range(math.prod(shape))]

    def neg(self, a: int) -> int:
        """Returns the node of -a."""
        if (x := self.number(a)) is not None:
            return self.constant(-x)
        if self.op[a] == "neg":
            return self.args[a][0]
        return self.node("neg", a)

    def add(self, a: int, b: int) -> int:
        """Returns the node of a + b; a + 0 is a, and a + (-b) is a - b."""
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return self.constant(x + y)
        if x == 0.0:
            return b
        if y == 0.0:
            return a
        if self.op[b] == "neg":
            return self.sub(a, self.args[b][0])
        if self.op[a] == "neg":
            return self.sub(b, self.args[a][0])
        return self.node("add", a, b)

    def sub(self, a: int, b: int) -> int:
        """Returns the node of a - b; a - a is 0, and b - a the negative of a - b."""
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return self.constant(x - y)
        if a == b:
            return self.constant(0.0)
        if y == 0.0:
            return a
        if x == 0.0:
            return self.neg(b)
        if self.op[b] == "neg":
            return self.add(a, self.args[b][0])
        if self.op[a] == "neg":
            return self.neg(self.add(self.args[a][0], b))
        if ("sub", (b, a), None) in self._known:
            return self.neg(self.node("sub", b, a))
        return self.node("sub", a, b)

    def mul(self, a: int, b: int) -> int:
        """Returns the node of a b; products with 0, 1, signs and reciprocals fold."""
        x, y = self.number(a), self.number(b)
        if x is not None and y is not None:
            return self.constant(x * y)
        if y is not None:
            a, b, x = b, a, y
        if x is not None:
            if x == 0.0:
                return a
            if x < 0.0:
                return self.neg(self.mul(self.constant(-x), b))
            if x == 1.0:
                return b
        if self.op[a] == "neg":
            return self.neg(self.mul(self.args[a][0], b))
        if self.op[b] == "neg":
            return self.neg(self.mul(a, self.args[b][0]))
        for p, q in ((a, b), (b, a)):
            if self._is_reciprocal(p, q):
                return self.constant(1.0)
            if self.op[p] == "mul":
                for r, s in (self.args[p], self.args[p][::-1]):
                    if self._is_reciprocal(r, q):
                        return s
        return self.node("mul", a, b)

    def _is_reciprocal(self, r: int, d: int) -> bool:
        return self.op[r] == "div" and self.args[r][1] == d and self.number(self.args[r][0]) == 1.0

    def div(self, a: int, b: int) -> int:
        """Returns the node of a / b; a / a is 1, and 0 / b is 0."""
        x, y = self.number(a), self.number(b)
        if x is not None and y:
            return self.constant(x / y)
        if y == 1.0 or (x == 0.0 and y != 0.0):
            return a
        if a == b:
            return self.constant(1.0)
        return self.node("div", a, b)

    def fma(self, a: int, b: int, c: int) -> int:
        """Returns the node of a b + c, rounded once."""
        if (
            self.number(a) in (0.0, 1.0, -1.0)
            or self.number(b) in (0.0, 1.0, -1.0)
            or self.number(c) == 0.0
        ):
            return self.add(self.mul(a, b), c)
        return self.node("fma", a, b, c)

    def sin(self, a: int) -> int:
        """Returns the node of the sine of a, rad."""
        if self.op[a] == "neg":
            return self.neg(self.sin(self.args[a][0]))
        return self._function("sin", a, lambda x: sine_cosine(x)[0])

    def cos(self, a: int) -> int:
        """Returns the node of the cosine of a, rad."""
        if self.op[a] == "neg":
            return self.cos(self.args[a][0])
        return self._function("cos", a, lambda x: sine_cosine(x)[1])

    def sqrt(self, a: int) -> int:
        """Returns the node of the square root of a."""
        return self._function("sqrt", a, math.sqrt)

    def abs(self, a: int) -> int:
        """Returns the node of |a|."""
        return self.abs(self.args[a][0]) if self.op[a] == "neg" else self._function("abs", a, abs)

    def round(self, a: int) -> int:
        """Returns the node of the integer nearest to a, halves to even."""
        return self._function("round", a, lambda x: float(round(x)))

    def elementary(self, op: str, *operands: int) -> int:
        """Returns the node of an elementary function. Nothing folds but signs and the value that is
        exact: the last bits of NumPy's and libm's functions differ by machine.
        """
        row, a = OPS[op], operands[0]
        if row.symmetry and self.op[a] == "neg":
            k = self.elementary(op, self.args[a][0])
            return self.neg(k) if row.symmetry == "odd" else k
        if row.exact and self.number(a) == row.exact[0]:
            return self.constant(row.exact[1])
        return self.node(op, *operands)

    def power_of_two(self, a: int) -> int:
        """Returns the node of 2^a, for an integer a of a normal number."""
        return self.node("power_of_two", a)

    def exponent(self, a: int) -> int:
        """Returns the node of a's exponent: 2^exponent <= |a| < 2^(exponent + 1)."""
        return self.node("exponent", a)

    def copysign(self, a: int, b: int) -> int:
        """Returns the node of |a| with the sign of b."""
        x, y = self.number(a), self.number(b)
        if x and y:  # -0.0 is no constant
            return self.constant(math.copysign(x, y))
        return self.abs(a) if y is not None and y > 0.0 else self.node("copysign", a, b)

    def _function(self, op: str, a: int, fold: Callable[[float], float]) -> int:
        x = self.number(a)
        if x is None or not math.isfinite(x) or (op == "sqrt" and x < 0):
            return self.node(op, a)
        return self.constant(fold(x))

    def less(self, a: int, b: int) -> int:
        """Returns the node of the condition a < b, for `select` alone."""
        return self.node("less", a, b)

    def less_equal(self, a: int, b: int) -> int:
        """Returns the node of the condition a <= b, for `select` alone."""
        return self.node("less_equal", a, b)

    def select(self, condition: int, a: int, b: int) -> int:
        """Returns the node of a where the condition holds, else of b."""
        if a == b:
            return a
        if (op := self.op[condition]) in CONDITIONS:
            x, y = (self.number(k) for k in self.args[condition])
            if x is not None and y is not None:
                return a if (x < y if op == "less" else x <= y) else b
        return self.node("select", condition, a, b)

    def quarter(self, k: int, s: int, c: int) -> int:
        """Returns the node of s, c, -s or -c, for k = 0, 1, 2, 3 modulo 4."""
        return self.node("quarter", k, s, c)

    # Reading

    def live(self) -> list[bool]:
        """Returns for each node whether the outputs need it."""
        needed = [False] * len(self)
        for out in self.outputs.values():
            for k in out.nodes:
                needed[k] = True
        for k in range(len(self) - 1, -1, -1):
            if needed[k]:
                for a in self.args[k]:
                    needed[a] = True
        return needed

    def uses(self) -> list[list[int]]:
        """For each node the nodes that have it as an operand, once for each time."""
        users: list[list[int]] = [[] for _ in range(len(self))]
        for k, args in enumerate(self.args):
            for a in args:
                users[a].append(k)
        return users

    def cost(self) -> Cost:
        """Operations by kind, depth and live values, in all and by stage: see
        `featherlane.program.cost`.
        """
        return cost(self)

    def replaced(self, **columns: Any) -> Graph:
        """Returns a graph of these nodes with other columns: `op`, `args`, `value`, `tag`,
        `inputs`, `outputs`, `facts`, `systems`. Facts and systems are not true of other operations
        and operands.
        """
        new = Graph()
        if columns.keys() & {"op", "args"}:
            columns = {"facts": {}, "systems": []} | columns
        for name in ("op", "args", "value", "tag", "inputs", "outputs", "facts", "systems"):
            setattr(new, name, columns.get(name, getattr(self, name)))
        return new


def _elementary(op: Op) -> Callable[..., int]:
    """Returns the method of `Graph` that enters an elementary function of the table."""

    def enter(self: Graph, *operands: int) -> int:
        return self.elementary(op.name, *operands)

    enter.__name__, enter.__qualname__ = op.name, f"Graph.{op.name}"
    enter.__doc__ = f"Returns the node of an elementary function: {op.meaning}."
    return enter


for _op in OPS.values():
    if _op.expansion and not hasattr(Graph, _op.name):
        setattr(Graph, _op.name, _elementary(_op))


assert all(hasattr(Graph, op) for op in ARITHMETIC), "every operation has a way in"


def graph_key(graph: Graph) -> str:
    """The identity of a graph, as text."""
    from hashlib import sha256  # loads OpenSSL

    nodes = repr((graph.op, graph.args, graph.value, graph.inputs, graph.outputs))
    return sha256(nodes.encode()).hexdigest()
