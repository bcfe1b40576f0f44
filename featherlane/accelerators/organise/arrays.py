"""A function of a robot cut into arrays: what each trunk, arm and leg computes, and limbs that are
alike on one kernel (Dadu-RBD, 2023, section V-C).

Each chain of bodies is an array. Its forward part computes what depends on it and on the chains
that carry it, its backward part what depends on the chains that it carries; at tips both are one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from featherlane.accelerators.organise.limb_graph import (
    first_freedoms,
    owners,
    traced,
    wanted_by,
    without_root,
)
from featherlane.accelerators.organise.limbs import Limbs
from featherlane.backends.fixed import slots
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import DELAYS
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.errors import CompileError, one_of, shown
from featherlane.functions.table import Variant
from featherlane.program.analysis.partition import NOWHERE, ArrayPlacement, Entry, partition
from featherlane.program.graph import Graph
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.branch_order import in_branch_order
from featherlane.program.passes.reductions import grouped, reduced
from featherlane.program.passes.segments import GraphSegment, joined, segments
from featherlane.program.rewrite import simplify
from featherlane.robot.chains import Alike, Chain, chains, groups
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.tree_of import tree_of

COMPUTED, PRESCRIBED = ROOTS = "computed", "prescribed"


Assign = Callable[[Graph, Mapping[str, np.ndarray]], Datapath]
"""Gives the formats of a graph; the constants of its inputs that are no numbers of a state."""


def in_q16(graph: Graph, constants: Mapping[str, np.ndarray]) -> Datapath:
    """Returns a datapath whose signals all have 16 bits before the point and 16 behind it."""
    return uniform(graph, "q16.16")


class Sums(NamedTuple):
    """Sums of the results of siblings of a group on one chain. what: sets it apart from a Home,
    since tuples of equal entries are equal.
    """

    chain: int
    group: int
    what: str = "sums"


class StationHome(NamedTuple):
    """The partition of a node: a station of a design, by its place in their order, and a Home or
    Sums in it. A function alone is one station.
    """

    station: int
    home: Any


class ArrayPart(NamedTuple):
    """The part of a group of arrays that a kernel computes; of a single array of the group, if
    `member` says which. chain: of sums over siblings, the chain that carries them. station: as of a
    StationHome.
    """

    group: int
    backward: bool
    member: int | None = None
    chain: int | None = None
    station: int = 0

    @property
    def sums(self) -> bool:
        """Whether it is sums over siblings."""
        return self.chain is not None


@dataclass(frozen=True, eq=False)
class Arrays:
    """A function of a robot as kernels that give each other values.

    datapath: the flat definition, whose inputs named in `constants` are numbers of the robot.
    kernels: in an order in which none needs a later one, by part; the ground's group is WORLD.
    columns: the kernels of the product with M^-1, by kind, of several functions.
    """

    model: Robot
    function: str
    chains: tuple[Chain, ...]
    groups: tuple[Alike, ...]
    datapath: Datapath
    constants: Mapping[str, np.ndarray]
    kernels: Mapping[ArrayPart, SlotKernel]
    columns: Mapping[Any, SlotKernel] = field(default_factory=dict)

    @cached_property
    def whole(self) -> Datapath:
        """The flat definition with the robot's constants in the place of their inputs: what a
        function of the robot computes. Its nodes have the same numbers.
        """
        graph = self.datapath.graph
        op, value = list(graph.op), list(graph.value)
        for k, integer in _table_nodes(self.datapath, self.constants).items():
            op[k], value[k] = "constant", integer * self.datapath.format(k).step
        inputs = {name: x for name, x in graph.inputs.items() if name not in self.constants}
        return replace(self.datapath, graph=graph.replaced(op=op, value=value, inputs=inputs))

    @property
    def fused(self) -> frozenset[int]:
        """The products that are computed with their sums."""
        return self.datapath.fused

    def changed(self, change: Callable[[Datapath], Datapath]) -> Self:
        """Returns the arrays with other formats, or fused products, in their kernels. change: gives
        a datapath of the same graph.
        """
        every: dict[Any, SlotKernel] = {**self.kernels, **self.columns}
        flat, changed = slots.changed(self.datapath, every, change)
        kernels = {part: changed[part] for part in self.kernels}
        columns = {key: changed[key] for key in self.columns}
        return replace(self, datapath=flat, kernels=kernels, columns=columns)

    @property
    def carriers(self) -> tuple[int, ...]:
        """The body of the algorithms' tree of each body of the robot."""
        return tree_of(self.model).carriers


def arrays(
    model: Robot,
    function: str,
    algorithm: str | None = None,
    root: str = COMPUTED,
    shared: Callable[[Alike], bool] = lambda group: True,
    assign: Assign = in_q16,
) -> Arrays:
    """Returns a function of a robot cut into the arrays of its chains.

    function: a name of `Variant`s that algorithms compute. root: "computed", or "prescribed": the
    motion of a free root is given, and its forces, and all derivatives by its motion, are not
    computed. shared: tells of a group of alike chains whether one kernel computes them all.
    assign: gives the formats of the flat graph. Raises ValueError for another root.
    """
    if root not in ROOTS:
        raise ValueError(f"root is {shown(root)}: {one_of(root, ROOTS)}")
    variant = Variant(function)
    cutter = Cutter(model, shared, first_freedoms(model) if root == PRESCRIBED else 0)
    graph = traced(model, variant, algorithm, cutter.limbs)
    flat, parts = cutter.cut(without_root(graph, model.nv, cutter.free))
    sets = dict(cutter.sets(parts))
    computed = kernels_of(flat, sets, cutter.limbs, assign)
    return Arrays(model, function, tuple(cutter.chains), tuple(cutter.groups), *computed)


class Kernels(NamedTuple):
    """A flat datapath, whose inputs named in `constants` are numbers of the robot, and the kernels
    that compute it.
    """

    datapath: Datapath
    constants: Mapping[str, np.ndarray]
    kernels: dict[Any, SlotKernel]


def kernels_of(
    flat: Graph, sets: Mapping[Any, Sequence[GraphSegment]], limbs: Limbs, assign: Assign
) -> Kernels:
    """Returns the kernels of sets of alike segments of a flat graph, by the names of the sets."""
    alike, constants = [*sets.values()], limbs.constants
    datapath = slots.united(_assigned(flat, assign, constants), alike)
    datapath = _with_tables(slots.united(narrowed(datapath), alike), limbs)
    tables = _table_nodes(datapath, constants)
    kernels = {part: slots.slot_kernel(datapath, parts, tables) for part, parts in sets.items()}
    return Kernels(datapath, constants, kernels)


def one_station(graph: Graph) -> list[int]:
    """Returns the station of each node of a function alone."""
    return [0] * len(graph)


class Cutter:
    """Cuts graphs of a robot into the parts of its arrays.

    shared, free: of alike chains, whether one kernel computes them; of the freedoms of a prescribed
    root, how many. stations: the station of each node of a graph, by its place in their order; none
    reads a later one. wanted: the chains of entries of outputs that are not by freedoms.
    """

    def __init__(
        self,
        model: Robot,
        shared: Callable[[Alike], bool],
        free: int = 0,
        stations: Callable[[Graph], Sequence[int]] = one_station,
    ) -> None:
        self.tree, self.shared, self.free, self.stations = tree_of(model), shared, free, stations
        tree = self.tree
        self.chains = chains(tree)
        self.groups = groups(tree, self.chains)
        together = [g if shared(g) else Alike(g.members[:1], g.parent) for g in self.groups]
        self.limbs = Limbs(tree, self.chains, together)
        self.wanted: dict[Entry, int] = {}
        self._owners = owners(tree, self.chains, self.groups, self.limbs)
        chain_of = {i: c for c, chain in enumerate(self.chains) for i in chain.bodies}
        self._chain_of = [chain_of[i] for i in tree.owners]  # of freedoms

    def cut(self, graph: Graph) -> tuple[Graph, list[GraphSegment]]:
        """Returns the flat graph of the parts of a graph, and these by their StationHome."""
        graph = self._in_one_order(graph)
        graph, _ = _live(grouped(graph, self._homes(graph)[0]))
        graph = self._in_one_order(graph)
        graph, totals = self._reduced(graph, segments(graph, *self._homes(graph)))
        return joined(graph, segments(graph, *self._homes(graph, totals)), _balanced)

    def sets(self, parts: Sequence[GraphSegment]) -> Iterator[tuple[ArrayPart, list[GraphSegment]]]:
        """Yields the part and the segments of each kernel, in an order of evaluation."""
        for station in sorted({_home(part).station for part in parts}):
            by_home = {_home(p).home: p for p in parts if _home(p).station == station}
            for part, alike in _sets(self.groups, by_home, self.shared):
                yield part._replace(station=station), alike

    def _in_one_order(self, graph: Graph) -> Graph:
        """Returns the graph with the nodes of limbs that are alike in one order."""
        return in_branch_order(graph, *self._homes(graph), self._rank)

    def _rank(self, home: Hashable, value: tuple[str, int]) -> Any:
        """The order of entries of a matrix by freedoms for a limb: freedoms that carry it first,
        then its own, then others.
        """
        assert isinstance(home, StationHome), "homes are those of stations"
        n, array = len(self._chain_of), home.home.array
        if value in self._owners or value[0] != "minv":
            return None
        carriers, c = set[int](), array
        while c >= 0:
            carriers.add(c)
            c = self.chains[c].parent

        def near(k: int) -> tuple[int, int]:
            chain = self._chain_of[k]
            return 2 if chain not in carriers else int(chain == array), k

        return sorted(map(near, divmod(value[1], n)))

    def _homes(
        self, graph: Graph, totals: Mapping[int, Sums] | None = None
    ) -> tuple[list[Hashable], list[Hashable]]:
        """Returns the home of each node, and all homes in an order of evaluation. totals: nodes
        that are sums over siblings.
        """
        totals, station = totals or {}, self.stations(graph)
        wanted = wanted_by(graph, self.tree, self.chains, self.free) | self.wanted
        parents = [chain.parent for chain in self.chains]
        partitions = partition(graph, parents, self._owners, wanted)
        station_homes: list[Hashable] = [
            StationHome(s, totals.get(k, home))
            for k, (s, home) in enumerate(zip(station, partitions, strict=True))
        ]
        inside: list[Any] = [ArrayPlacement(NOWHERE), *map(ArrayPlacement, range(len(self.chains)))]
        for c in (*reversed(range(len(self.chains))), NOWHERE):
            inside += [sums for sums in dict.fromkeys(totals.values()) if sums.chain == c]
            inside.append(ArrayPlacement(c, True))
        return station_homes, [StationHome(s, home) for s in sorted({*station}) for home in inside]

    def _reduced(
        self, graph: Graph, parts: Sequence[GraphSegment]
    ) -> tuple[Graph, dict[int, Sums]]:
        """Returns the graph in which what siblings on one circuit give, and only their sum is read,
        is added up first; and the nodes of these sums.
        """
        gives = {part.name: part.gives for part in parts}
        sets: list[tuple[int, ...]] = []
        names: dict[tuple[int, ...], Sums] = {}
        directions = [*product(sorted({_home(part).station for part in parts}), (False, True))]
        for number, group in enumerate(self.groups):
            for parent in dict.fromkeys(self.chains[c].parent for c in group.members):
                siblings = [c for c in group.members if self.chains[c].parent == parent]
                for s, backward in directions:
                    partials_of = [
                        gives.get(StationHome(s, ArrayPlacement(c, backward)), ()) for c in siblings
                    ]
                    if (
                        len(siblings) > 1
                        and self.shared(group)
                        and len({len(x) for x in partials_of}) == 1
                    ):
                        for nodes in zip(*partials_of, strict=True):
                            sets.append(nodes)
                            names[nodes] = Sums(parent, number)
        new, sums = reduced(graph, sets)
        new, place = _live(new)
        return new, {
            place[k]: names[nodes]
            for nodes, partials in sums.items()
            for k in partials
            if k in place
        }


def _assigned(graph: Graph, assign: Assign, constants: Mapping[str, np.ndarray]) -> Datapath:
    """Returns the datapath of a graph. Raises CompileError for formats that change the graph."""
    datapath = assign(graph, constants)
    if datapath.graph.op != graph.op:
        raise CompileError(
            "formats that are proved clamp signals of this function, which arrays do not: wanted "
            "'fitted', or one such as 'q16.16'"
        )
    return datapath


def _live(graph: Graph) -> tuple[Graph, dict[int, int]]:
    """Returns the live nodes of a graph, and their places."""
    kept = [k for k, needed in enumerate(graph.live()) if needed]
    return simplify(graph), {k: n for n, k in enumerate(kept)}


def _balanced(part: GraphSegment) -> Graph:
    """The graph of a segment with balanced sums; sums over siblings stay as they are."""
    sums = isinstance(_home(part).home, Sums)
    return part.graph if sums else balanced(part.graph, DELAYS)


def _home(part: GraphSegment) -> StationHome:
    assert isinstance(part.name, StationHome), "segments are called after their homes"
    return part.name


def _sets(
    alike: Sequence[Alike], by_home: Mapping[Any, GraphSegment], shared: Callable[[Alike], bool]
) -> Iterator[tuple[ArrayPart, list[GraphSegment]]]:
    """Yields the part and the segments of each kernel, in an order of evaluation."""
    ground = Alike((NOWHERE,), WORLD)
    forward = [(WORLD, ground), *enumerate(alike)]
    for backward, numbered in ((False, forward), (True, forward[::-1])):
        for number, group in numbered:
            if backward:
                for name, part in by_home.items():
                    if isinstance(name, Sums) and name.chain in group.members:
                        yield ArrayPart(name.group, True, chain=name.chain), [part]
            homes_of = [ArrayPlacement(c, backward) for c in group.members]
            parts = {n: by_home[h] for n, h in enumerate(homes_of) if h in by_home}
            everywhere = len(parts) == len(group.members)
            if everywhere and shared(group) and slots.are_alike([*parts.values()]):
                yield ArrayPart(number, backward), [*parts.values()]
                continue
            for member, segment in parts.items():
                yield ArrayPart(number, backward, member), [segment]


def _with_tables(datapath: Datapath, limbs: Limbs) -> Datapath:
    """Returns the datapath with the least formats that hold the constants of all limbs."""
    forms = list(datapath.formats)
    graph = datapath.graph
    for name, x in limbs.constants.items():
        for k in graph.nodes_of("input"):
            if graph.value[k][0] == name:
                column = x[:, graph.value[k][1] % x.shape[1]]
                forms[k] = _least(column, datapath.format(k))
    return Datapath(graph, tuple(forms))


def _least(column: np.ndarray, form: Format) -> Format:
    """The least format that holds numbers as another format rounds them."""
    integers = [round(x / form.step) for x in column]
    fraction = form.fraction
    while any(integers) and not any(n & 1 for n in integers):
        integers, fraction = [n >> 1 for n in integers], fraction - 1
    width = max((n if n >= 0 else ~n).bit_length() for n in integers) + 1
    return Format(max(width, 2), fraction)


def _table_nodes(datapath: Datapath, constants: Mapping[str, np.ndarray]) -> dict[int, int]:
    """The integers of constants that are inputs, by node."""
    graph = datapath.graph
    return {
        k: round(constants[name].reshape(-1)[i] / datapath.format(k).step)
        for k in graph.nodes_of("input")
        for name, i in [graph.value[k]]
        if name in constants
    }
