"""A function of a robot cut into arrays: what each trunk, arm and leg computes, and limbs that are
alike on one kernel (Dadu-RBD, 2023, section V-C).

Each chain of bodies is an array. Its forward part computes what depends on it and on the chains
that carry it, its backward part what depends on the chains that it carries; at tips both are one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed import slots
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import DELAYS
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.errors import CompileError, shown
from featherlane.functions.accelerator.limb_graph import (
    first_freedoms,
    owners,
    traced,
    wanted_by,
    without_root,
)
from featherlane.functions.accelerator.limbs import Limbs
from featherlane.functions.table import Variant
from featherlane.program.analysis.homes import NOWHERE, Home, homes
from featherlane.program.graph import Graph, simplify
from featherlane.program.passes.alike_order import in_one_order
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.reduces import grouped, reduced
from featherlane.program.passes.segments import GraphSegment, joined, segments
from featherlane.robot.chains import Alike, Chain, chains, groups
from featherlane.robot.model import WORLD, Robot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

COMPUTED, PRESCRIBED = ROOTS = "computed", "prescribed"


Assign = Callable[[Graph, Mapping[str, np.ndarray]], Datapath]
"""Gives the formats of a graph; the constants of its inputs that are no numbers of a state."""


def in_q16(graph: Graph, constants: Mapping[str, np.ndarray]) -> Datapath:
    """Returns a datapath whose signals all have 16 bits before the point and 16 behind it."""
    return uniform(graph, "q16.16")


class Sums(NamedTuple):
    """What siblings of a group on one chain give, added up. what: sets it apart from a Home, since
    tuples of equal entries are equal.
    """

    chain: int
    group: int
    what: str = "sums"


class ArrayPart(NamedTuple):
    """The part of a group of arrays that a kernel computes; of a single array of the group, if
    `member` says which. chain: of sums over siblings, the chain that carries them.
    """

    group: int
    backward: bool
    member: int | None = None
    chain: int | None = None

    @property
    def sums(self) -> bool:
        """Whether it is sums over siblings."""
        return self.chain is not None


@dataclass(frozen=True, eq=False)
class Arrays:
    """A function of a robot as kernels that give each other values.

    datapath: the flat definition, whose inputs named in `constants` are numbers of the robot.
    kernels: in an order in which none needs a later one, by part; the ground's group is WORLD.
    """

    model: Robot
    function: str
    chains: tuple[Chain, ...]
    groups: tuple[Alike, ...]
    datapath: Datapath
    constants: Mapping[str, np.ndarray]
    kernels: Mapping[ArrayPart, SlotKernel]

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

    def changed(self, change: Callable[[Datapath], Datapath]) -> Arrays:
        """Returns the arrays with other formats, or fused products, in their kernels. change: gives
        a datapath of the same graph.
        """
        flat, kernels = slots.changed(self.datapath, self.kernels, change)
        return replace(self, datapath=flat, kernels=kernels)

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
    computed. shared: tells of a group of alike chains whether one kernel computes them in turn.
    assign: gives the formats of the flat graph. Raises ValueError for another root.
    """
    if root not in ROOTS:
        raise ValueError(f"root is {shown(root)}: wanted {' or '.join(map(repr, ROOTS))}")
    variant = Variant(function)
    tree = tree_of(model)
    found = chains(tree)
    alike = groups(tree, found)
    limbs = Limbs(tree, found, [g if shared(g) else Alike(g.members[:1], g.parent) for g in alike])
    free = first_freedoms(model) if root == PRESCRIBED else 0
    graph = without_root(traced(model, variant, algorithm, limbs), model.nv, free)
    cutter = _Cutter(tree, found, alike, limbs, free)
    graph = cutter.in_one_order(graph)
    graph, _ = _live(grouped(graph, cutter.homes(graph)[0]))
    graph = cutter.in_one_order(graph)
    parts = segments(graph, *cutter.homes(graph))
    graph, totals = _reduced(graph, found, alike, parts, shared)
    home, order = cutter.homes(graph, totals)
    flat, parts = joined(graph, segments(graph, home, order), _balanced)
    by_home = {part.name: part for part in parts}
    sets = list(_sets(alike, by_home, shared))
    datapath = slots.united(_assigned(flat, assign, limbs.constants), [own for _, own in sets])
    datapath = _with_tables(slots.united(narrowed(datapath), [s for _, s in sets]), limbs)
    tables = _table_nodes(datapath, limbs.constants)
    made = {part: slots.slot_kernel(datapath, own, tables) for part, own in sets}
    return Arrays(model, function, tuple(found), tuple(alike), datapath, limbs.constants, made)


class _Cutter:
    """Tells where the nodes of a graph belong."""

    def __init__(
        self,
        tree: Tree,
        found: Sequence[Chain],
        alike: Sequence[Alike],
        limbs: Limbs,
        free: int,
    ) -> None:
        self.tree, self.found, self.free = tree, found, free
        self.owners = owners(tree, found, alike, limbs)
        chain_of = {i: c for c, chain in enumerate(found) for i in chain.bodies}
        self.chains = [chain_of[i] for i in tree.owners]  # of freedoms

    def in_one_order(self, graph: Graph) -> Graph:
        """Returns the graph with the nodes of limbs that are alike in one order."""
        return in_one_order(graph, *self.homes(graph), self._rank)

    def _rank(self, home: Hashable, value: tuple[str, int]) -> Any:
        """Where an entry of a matrix by freedoms stands to a limb: freedoms that carry it first,
        then its own, then others.
        """
        assert isinstance(home, Home)
        n = len(self.chains)
        if value in self.owners or value[0] != "minv":
            return None
        carriers, c = set[int](), home.array
        while c >= 0:
            carriers.add(c)
            c = self.found[c].parent

        def near(k: int) -> tuple[int, int]:
            own = self.chains[k]
            return 2 if own not in carriers else int(own == home.array), k

        return sorted(map(near, divmod(value[1], n)))

    def homes(
        self, graph: Graph, totals: Mapping[int, Sums] | None = None
    ) -> tuple[list[Hashable], list[Hashable]]:
        """Returns the home of each node, and all homes in an order of evaluation. totals: nodes
        that are sums over siblings.
        """
        totals = totals or {}
        wanted = wanted_by(graph, self.tree, self.found, self.free)
        parents = [chain.parent for chain in self.found]
        own: list[Hashable] = [*homes(graph, parents, self.owners, wanted)]
        for k, sums in totals.items():
            own[k] = sums
        order: list[Hashable] = [Home(NOWHERE), *map(Home, range(len(self.found)))]
        for c in (*reversed(range(len(self.found))), NOWHERE):
            order += [sums for sums in dict.fromkeys(totals.values()) if sums.chain == c]
            order.append(Home(c, True))
        return own, order


def _reduced(
    graph: Graph,
    found: Sequence[Chain],
    alike: Sequence[Alike],
    parts: Sequence[GraphSegment],
    shared: Callable[[Alike], bool],
) -> tuple[Graph, dict[int, Sums]]:
    """Returns the graph in which what siblings on one circuit give, and only their sum is read, is
    added up first; and the nodes of these sums.
    """
    gives = {part.name: part.gives for part in parts}
    sets: list[tuple[int, ...]] = []
    names: dict[tuple[int, ...], Sums] = {}
    for number, group in enumerate(alike):
        for parent in dict.fromkeys(found[c].parent for c in group.members):
            own = [c for c in group.members if found[c].parent == parent]
            for backward in (False, True):
                given = [gives.get(Home(c, backward), ()) for c in own]
                if len(own) > 1 and shared(group) and len({len(x) for x in given}) == 1:
                    for nodes in zip(*given, strict=True):
                        sets.append(nodes)
                        names[nodes] = Sums(parent, number)
    new, sums = reduced(graph, sets)
    new, place = _live(new)
    return new, {
        place[k]: names[nodes] for nodes, partials in sums.items() for k in partials if k in place
    }


def _assigned(graph: Graph, assign: Assign, constants: Mapping[str, np.ndarray]) -> Datapath:
    """Returns the datapath of a graph. Raises CompileError for formats that change the graph."""
    datapath = assign(graph, constants)
    if datapath.graph.op != graph.op:
        raise CompileError(
            "formats that are proved clamp signals of this function, which arrays do not: wanted "
            "'q16.16' or alike, or 'fitted'"
        )
    return datapath


def _live(graph: Graph) -> tuple[Graph, dict[int, int]]:
    """Returns the live nodes of a graph, and their places."""
    kept = [k for k, needed in enumerate(graph.live()) if needed]
    return simplify(graph), {k: n for n, k in enumerate(kept)}


def _balanced(part: GraphSegment) -> Graph:
    """What a segment computes with balanced sums; sums over turns stay as they are."""
    return part.graph if isinstance(part.name, Sums) else balanced(part.graph, DELAYS)


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
            homes_of = [Home(c, backward) for c in group.members]
            own = {n: by_home[h] for n, h in enumerate(homes_of) if h in by_home}
            everywhere = len(own) == len(group.members)
            if everywhere and shared(group) and slots.are_alike([*own.values()]):
                yield ArrayPart(number, backward), [*own.values()]
                continue
            for member, segment in own.items():
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
