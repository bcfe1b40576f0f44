"""Pipelines: the cycle and the unit of each operation of a graph, and the registers of its result.

A new state enters every `interval` cycles, the initiation interval (II), and meets the same
schedule; the phase of a cycle is its remainder by the interval. The caller supplies delays and
registers, as an `Operator` for each node. A pipeline does not depend on the method that computed
it, and checks itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.program.graph import Graph

ROUNDING = 1e-9  # of sums of delays, relative to the clock


class Operator(NamedTuple):
    """The circuit that computes a node.

    kind: operations of one kind can share a unit. cycles: registers between operands and result; 0
    for a combinational circuit, which may follow another one in the same cycle. before, after:
    nanoseconds in front of the first register and behind the last one; without registers, all of
    them count as `after`. shared: whether a unit serves several operations, one in each phase; else
    each has a separate unit. follows: the position of the operand whose unit computes this
    operation too, as soon as that operand is ready, and which nothing else reads (the product of a
    multiply-add); -1 for none. An operator that follows has registers. region: operators of two
    regions, such as modules that lie apart, are not chained: a register stands between them.
    """

    kind: str
    cycles: int = 0
    before: float = 0.0
    after: float = 0.0
    shared: bool = False
    follows: int = -1
    region: Hashable = None

    @property
    def has_logic_in_front(self) -> bool:
        """Whether the operands go through logic before a register."""
        return (self.before if self.cycles else self.before + self.after) > 0

    def in_region(self, region: Hashable, link: float, factor: float) -> Operator:
        """The operator in a region, with delays longer by a factor. link: nanoseconds that operands
        take from other regions.
        """
        before, after = (link, 0.0) if self.cycles else (0.0, link)
        return self._replace(
            before=factor * (self.before + before),
            after=factor * (self.after + after),
            region=region,
        )


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The schedule of a graph.

    operators: of each node, None for inputs, constants and nodes that are only wires. clock:
    nanoseconds a cycle. interval: cycles from one state to the next. start: the cycle in which each
    node reads its operands (for wires, in which the only operand is ready; for inputs, in which
    they arrive; 0 for constants). pool: operations of the same pool and kind share units. unit: the
    number of a node's unit in its pool and kind; -1 for operations that do not share. The sine and
    the cosine of one angle may be computed by one unit in one cycle. latency: the cycle in which
    all outputs are read, except the outputs that are read earlier, in the cycles `taken` by name.

    The result of a node is ready in cycle start + cycles. A later cycle reads it from a register:
    register 0 holds it for the `interval` cycles after that, register 1 for the next `interval`
    cycles, and so on. Wires have no registers: they are wires behind the registers of their
    operand.
    """

    graph: Graph
    operators: tuple[Operator | None, ...]
    clock: float
    interval: int
    start: tuple[int, ...]
    pool: tuple[Hashable, ...]
    unit: tuple[int, ...]
    latency: int
    taken: Mapping[str, int] = field(default_factory=dict)

    def read_in(self, output: str) -> int:
        """The cycle in which an output is read."""
        return self.taken.get(output, self.latency)

    def ready(self, k: int) -> int:
        """The cycle in which the result of node k is ready."""
        operator = self.operators[k]
        return self.start[k] + (operator.cycles if operator else 0)

    def register(self, k: int, cycle: int) -> int:
        """The register from which a cycle reads the result of node k; -1: its wire."""
        return (cycle - self.ready(k) - 1) // self.interval if cycle > self.ready(k) else -1

    @property
    def throughput(self) -> float:
        """States a second."""
        return 1e9 / (self.clock * self.interval)

    @property
    def time(self) -> float:
        """Microseconds from the inputs to the outputs of a state."""
        return self.latency * self.clock * 1e-3

    @property
    def units(self) -> Counter[tuple[Hashable, str]]:
        """The number of units by pool and kind. An operation that does not share has one."""
        units: Counter[tuple[Hashable, str]] = Counter()
        for k, operator in enumerate(self.operators):
            if operator and operator.shared:
                key = self.pool[k], operator.kind
                units[key] = max(units[key], self.unit[k] + 1)
            elif operator and operator.follows < 0:
                units[self.pool[k], operator.kind] += 1
        return units

    @property
    def kinds(self) -> Counter[str]:
        """The number of units by kind, of all pools."""
        kinds: Counter[str] = Counter()
        for (_, kind), count in self.units.items():
            kinds[kind] += count
        return kinds

    @property
    def last_read(self) -> tuple[int, ...]:
        """The last cycle in which the result of each node, or of wires behind it, is read."""
        last = [self.ready(k) for k in range(len(self.graph))]
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                last[k] = max(last[k], self.read_in(name))
        for k in reversed(range(len(self.graph))):
            read = last[k] if self._is_wire(k) else self.start[k]
            for a in self.graph.args[k]:
                last[a] = max(last[a], read)
        return tuple(last)

    @property
    def registers(self) -> tuple[int, ...]:
        """The number of registers that the result of each node needs, up to its last reader."""
        return tuple(
            0 if self._is_wire(k) or self.graph.op[k] == "constant" else self.register(k, cycle) + 1
            for k, cycle in enumerate(self.last_read)
        )

    @property
    def registers_read(self) -> list[set[int]]:
        """The registers from which the result of each node is read, -1 for its wire. A reader of a
        node that is only wires reads a register of its operand, of the same number.
        """
        read: list[set[int]] = [set() for _ in range(len(self.graph))]
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                read[k].add(self.register(k, self.read_in(name)))
        for k in reversed(range(len(self.graph))):
            for a in self.graph.args[k]:
                read[a] |= read[k] if self._is_wire(k) else {self.register(a, self.start[k])}
        return [
            set() if op == "constant" else of_node
            for op, of_node in zip(self.graph.op, read, strict=True)
        ]

    def _is_wire(self, k: int) -> bool:
        return self.operators[k] is None and bool(self.graph.args[k])

    def __str__(self) -> str:
        """The figures, one a line, and the operations of each cycle."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.kinds.items()))
        lines = [
            f"interval {self.interval}, latency {self.latency} cycles of {self.clock:g} ns "
            f"= {self.time:.3f} us, {self.throughput / 1e6:.3g} million states a second",
            f"units: {kinds or 'none'}",
            f"registers: {sum(self.registers)}",
        ]
        work: dict[int, Counter[str]] = {}
        for k, operator in enumerate(self.operators):
            if operator:
                work.setdefault(self.start[k], Counter())[operator.kind] += 1
        for cycle, counts in sorted(work.items()):
            shown = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
            lines.append(f"cycle {cycle}: {shown}")
        return "\n".join(lines)

    # Checks

    def verify(self) -> None:
        """Raises ValueError, with the node and the cycle, where an operand is not ready, chained
        operations take longer than a cycle, two operations use a unit in one phase, numbers of
        units have gaps, or an output is late.
        """
        self._check_columns()
        arrival = list[float]()  # nanoseconds into the cycle in which the result is ready
        for k in range(len(self.graph)):
            self._check_operands(k)
            arrival.append(self._arrival(k, arrival))
            self._check_regions(k, arrival)
        self._check_units()
        self._check_followers()
        for name, out in self.graph.outputs.items():
            for k in out.nodes:
                if self.graph.op[k] != "constant" and self.ready(k) > self.read_in(name):
                    raise ValueError(
                        f"output {name!r} is read in cycle {self.read_in(name)}, but "
                        f"{self._name(k)} is there in cycle {self.ready(k)}"
                    )

    def _name(self, k: int) -> str:
        return f"node {k} ({self.graph.op[k]})"

    def _check_columns(self) -> None:
        """Raises ValueError for lists that do not fit the graph, and for times below the least
        ones.
        """
        for name in ("operators", "start", "pool", "unit"):
            if (n := len(getattr(self, name))) != len(self.graph):
                raise ValueError(f"{name} has {n} entries: the graph has {len(self.graph)} nodes")
        if self.interval < 1 or self.clock <= 0:
            raise ValueError(
                f"interval is {self.interval} and clock {self.clock}: wanted 1 or more cycles, of "
                "more than 0 ns"
            )
        for k, operator in enumerate(self.operators):
            if operator and not self.graph.args[k]:
                raise ValueError(f"{self._name(k)} has an operator, {operator.kind}")
            if self.start[k] < 0:
                raise ValueError(f"{self._name(k)} starts in cycle {self.start[k]}")

    def _operands(self, k: int) -> Iterator[int]:
        return (a for a in self.graph.args[k] if self.graph.op[a] != "constant")

    def _check_operands(self, k: int) -> None:
        """Raises ValueError if a node starts before an operand is there."""
        for a in self._operands(k):
            if self.ready(a) > self.start[k]:
                raise ValueError(
                    f"{self._name(k)} starts in cycle {self.start[k]}, but its operand "
                    f"{self._name(a)} is there in cycle {self.ready(a)}"
                )
        if self._is_wire(k):
            operands = set(self._operands(k))
            if len(operands) > 1:
                raise ValueError(f"{self._name(k)} is only wires, but of {len(operands)} operands")
            if operands and self.start[k] != self.ready(a := operands.pop()):
                raise ValueError(
                    f"{self._name(k)} is only wires and starts in cycle {self.start[k]}, but its "
                    f"operand {self._name(a)} is there in cycle {self.ready(a)}"
                )

    def _arrival(self, k: int, arrival: list[float]) -> float:
        """The nanoseconds into its cycle after which the result of node k is ready: 0 for inputs
        and outputs of registers.
        """
        operator = self.operators[k]
        start = self.start[k]
        waits = (arrival[a] for a in self._operands(k) if self.ready(a) == start)
        begin = max(waits, default=0.0)
        if operator is None:
            return begin
        if operator.cycles:
            self._check_time(k, start, begin + operator.before)
            begin, added = 0.0, operator.after
        else:
            added = operator.before + operator.after
        self._check_time(k, self.ready(k), begin + added)
        return begin + added

    def _check_time(self, k: int, cycle: int, time: float) -> None:
        if time > self.clock * (1 + ROUNDING):
            raise ValueError(
                f"{self._name(k)} takes until {time:.3f} ns of cycle {cycle}, which has "
                f"{self.clock:g} ns"
            )

    def _check_regions(self, k: int, arrival: Sequence[float]) -> None:
        """Raises ValueError if a node begins with logic in the cycle in which logic of another
        region gives an operand.
        """
        operator = self.operators[k]
        if operator is None or not operator.has_logic_in_front:
            return
        for a in self._operands(k):
            chained = self.ready(a) == self.start[k] and arrival[a] > 0
            if chained and self._region(a) != operator.region:
                raise ValueError(
                    f"{self._name(k)} in cycle {self.start[k]} is chained to {self._name(a)} of "
                    "another region: wanted a register between them"
                )

    def _region(self, k: int) -> Hashable:
        """The region that drives a node, for wires that of their operand."""
        while self._is_wire(k):
            k = next(self._operands(k), -1)
            if k < 0:
                return None
        operator = self.operators[k]
        return operator.region if operator else None

    def _check_units(self) -> None:
        """Raises ValueError if two nodes want one unit in one phase, and for numbers of no unit."""
        busy: dict[tuple[Hashable, str, int, int], int] = {}
        numbers: dict[tuple[Hashable, str], set[int]] = {}
        for k, operator in enumerate(self.operators):
            unit = self.unit[k]
            if (unit >= 0) != bool(operator and operator.shared) or unit < -1:
                raise ValueError(
                    f"{self._name(k)} has unit {unit}: wanted 0 or more of what is shared, -1 else"
                )
            if operator and operator.shared:
                numbers.setdefault((self.pool[k], operator.kind), set()).add(unit)
                key = self.pool[k], operator.kind, unit, self.start[k] % self.interval
                other = busy.setdefault(key, k)
                if other != k and not self._is_pair(other, k):
                    raise ValueError(
                        f"{self._name(other)} in cycle {self.start[other]} and {self._name(k)} in "
                        f"cycle {self.start[k]} want unit {unit} of {operator.kind} in pool "
                        f"{self.pool[k]} in one phase of interval {self.interval}"
                    )
        for (pool, kind), used in numbers.items():
            if len(used) != max(used) + 1:
                missing = min(set(range(max(used))) - used)
                raise ValueError(f"no operation is on unit {missing} of {kind} in pool {pool}")

    def _check_followers(self) -> None:
        """Checks that an operation that follows an operand starts when it is ready and alone reads
        it.
        """
        readers = Counter(a for args in self.graph.args for a in args)
        readers.update(k for out in self.graph.outputs.values() for k in out.nodes)
        for k, operator in enumerate(self.operators):
            if operator is None or operator.follows < 0:
                continue
            if operator.shared or not operator.cycles:
                raise ValueError(f"{self._name(k)} follows an operand: wanted registers, no unit")
            a = self.graph.args[k][operator.follows]
            if readers[a] > 1 or self.operators[a] is None:
                raise ValueError(
                    f"{self._name(k)} follows {self._name(a)}: wanted an operation that nothing "
                    "else reads"
                )
            if self.start[k] != self.ready(a):
                raise ValueError(
                    f"{self._name(k)} starts in cycle {self.start[k]}, but {self._name(a)}, which "
                    f"it follows, is there in cycle {self.ready(a)}"
                )

    def _is_pair(self, a: int, b: int) -> bool:
        """Tells whether two nodes are the sine and cosine of one angle, computed at once."""
        same = self.graph.args[a] == self.graph.args[b] and self.start[a] == self.start[b]
        return same and {self.graph.op[a], self.graph.op[b]} == {"sin", "cos"}
