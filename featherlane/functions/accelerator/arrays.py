"""A function of a robot cut into arrays: what each trunk, arm and leg computes, and limbs that are
alike on one kernel (Dadu-RBD, 2023, section V-C).

Each chain of bodies is an array. Its forward part computes what depends on it and on the chains
that carry it, its backward part what depends on the chains that it carries; at tips both are one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fixed import slots
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fixed.prepare import DELAYS, rewritten
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.errors import CompileError, shown
from featherlane.functions.accelerator.limbs import SIGNS, VALUES, Limbs
from featherlane.functions.circuits import CIRCUITS, algorithm_of
from featherlane.functions.compile import input_shapes, output_shapes
from featherlane.functions.pieces import EVERY
from featherlane.functions.table import Algorithm, Variant
from featherlane.program.analysis.homes import NOWHERE, Entry, Home, homes
from featherlane.program.graph import Graph, Output, rewrite, simplify
from featherlane.program.passes.balance import balanced
from featherlane.program.passes.reduces import reduced
from featherlane.program.passes.segments import GraphSegment, joined, segments
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.chains import Alike, Chain, chains, groups
from featherlane.robot.model import WORLD, Robot
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

COMPUTED, PRESCRIBED = ROOTS = "computed", "prescribed"


def in_q16(graph: Graph) -> Datapath:
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
    kernels: in an order in which none needs a later one, by place; the ground's group is WORLD.
    """

    model: Robot
    function: str
    chains: tuple[Chain, ...]
    groups: tuple[Alike, ...]
    datapath: Datapath
    constants: Mapping[str, np.ndarray]
    kernels: Mapping[ArrayPart, SlotKernel]

    @property
    def carriers(self) -> tuple[int, ...]:
        """The body of the algorithms' tree of each body of the robot."""
        return tree_of(self.model).carriers

    def integers(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns integers (states, *shape) of the function's inputs, with those of constants."""
        states = len(next(iter(inputs.values())))
        found = dict(inputs)
        for name, x in _tables(self.datapath, self.constants).items():
            found[name] = np.broadcast_to(x, (states, *x.shape))
        return found


def arrays(
    model: Robot,
    function: str,
    algorithm: str | None = None,
    root: str = COMPUTED,
    shared: Callable[[Alike], bool] = lambda group: True,
    assign: Callable[[Graph], Datapath] = in_q16,
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
    graph = _without_root(_traced(model, variant, algorithm, limbs), model.nv, free)
    cutter = _Cutter(tree, found, alike, limbs, free)
    parts = segments(graph, *cutter.homes(graph))
    graph, totals = _reduced(graph, found, alike, parts, shared)
    home, order = cutter.homes(graph, totals)
    flat, parts = joined(graph, segments(graph, home, order), _balanced)
    by_home = {part.name: part for part in parts}
    sets = list(_sets(alike, by_home, shared))
    datapath = slots.united(_assigned(flat, assign), [own for _, own in sets])
    datapath = _with_tables(slots.united(narrowed(datapath), [s for _, s in sets]), limbs)
    tables = _table_nodes(datapath, limbs.constants)
    made = {part: slots.slot_kernel(datapath, own, tables) for part, own in sets}
    return Arrays(model, function, tuple(found), tuple(alike), datapath, limbs.constants, made)


def _traced(model: Robot, variant: Variant, name: str | None, limbs: Limbs) -> Graph:
    """The flat graph of a function with inputs for the constants in which limbs differ."""
    algorithm = _algorithm(model, variant, name)
    shapes, outputs = input_shapes(model, variant), output_shapes(model, variant)

    def run(*inputs: Any) -> dict[str, Any]:
        given = dict(zip([*shapes, *limbs.inputs], inputs, strict=True))
        tree = limbs.with_inputs({key: given.pop(key) for key in limbs.inputs})
        return dict(zip(outputs, algorithm(tree, *given.values()), strict=True))

    with no_garbage():
        return rewritten(_signed(simplify(trace(run, shapes | limbs.inputs))))


def _algorithm(model: Robot, variant: Variant, name: str | None) -> Algorithm:
    chosen = algorithm_of(model, variant, name, proved=False)
    return EVERY[variant.name].algorithms[0] if chosen is None else CIRCUITS[variant.name][chosen]


def _signed(graph: Graph) -> Graph:
    """Returns the graph with products with signs as choices between a number and its negative,
    which take no multipliers.
    """

    def is_sign(k: int) -> bool:
        return graph.op[k] == "input" and graph.value[k][0].startswith(SIGNS)

    def rule(first: bool) -> Callable[..., int]:
        def chosen(new: Graph, a: int, b: int) -> int:
            sign, x = (a, b) if first else (b, a)
            return new.select(new.less(sign, new.constant(0.0)), new.neg(x), x)

        return chosen

    rules = {
        k: rule(is_sign(args[0]))
        for k, args in enumerate(graph.args)
        if graph.op[k] == "mul" and any(map(is_sign, args))
    }
    return rewrite(graph, rules) if rules else graph


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
        self.owners = _owners(tree, found, alike, limbs)

    def homes(
        self, graph: Graph, totals: Mapping[int, Sums] | None = None
    ) -> tuple[list[Hashable], list[Hashable]]:
        """Returns the home of each node, and all homes in an order of evaluation. totals: nodes
        that are sums over siblings.
        """
        totals = totals or {}
        wanted = _wanted(graph, self.tree, self.found, self.free)
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


def _assigned(graph: Graph, assign: Callable[[Graph], Datapath]) -> Datapath:
    """Returns the datapath of a graph. Raises CompileError for formats that change the graph."""
    datapath = assign(graph)
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


def _owners(
    tree: Tree, found: Sequence[Chain], alike: Sequence[Alike], limbs: Limbs
) -> dict[Entry, int]:
    """The chain of each entry of inputs."""
    owners: dict[Entry, int] = {}
    for c, chain in enumerate(found):
        for i in chain.bodies:
            owners |= {("q", source.k): c for source in tree.sources[i]}
            owners |= {(name, k): c for name in ("v", "a", "tau") for k, _ in tree.freedoms[i]}
    for name, (_, entries) in limbs.inputs.items():
        number = int(name.removeprefix(SIGNS).removeprefix(VALUES))
        for member, c in enumerate(alike[number].members):
            owners |= {(name, member * entries + i): c for i in range(entries)}
    return owners


def first_freedoms(model: Robot) -> int:
    """The freedoms of the first joint, if it is a root of several; else 0."""
    count = model.types[0].nv
    return count if count > 1 and model.joints[0].parent == WORLD else 0


def _without_root(graph: Graph, nv: int, free: int) -> Graph:
    """Returns the graph without the first entries of vectors and matrices by freedoms."""
    if not free:
        return graph
    left, outputs = range(free, nv), dict[str, Output]()
    for name, (shape, nodes) in graph.outputs.items():
        if shape == (nv,):
            outputs[name] = Output((len(left),), tuple(nodes[i] for i in left))
        elif shape == (nv, nv):
            kept = tuple(nodes[nv * i + j] for i in left for j in left)
            outputs[name] = Output((len(left), len(left)), kept)
        else:
            outputs[name] = Output(shape, nodes)
    return simplify(graph.replaced(outputs=outputs))


def _wanted(graph: Graph, tree: Tree, found: Sequence[Chain], free: int) -> dict[Entry, int]:
    """The chain that gives each entry of outputs of a freedom, or of the further one of two."""
    chain_of = {i: c for c, chain in enumerate(found) for i in chain.bodies}
    own = [chain_of[i] for i in tree.owners[free:]]
    wanted: dict[Entry, int] = {}
    for name, out in graph.outputs.items():
        if out.shape == (len(own),):
            wanted |= {(name, i): c for i, c in enumerate(own)}
        elif out.shape == (len(own), len(own)):
            for n in range(len(own) ** 2):
                wanted[name, n] = max(own[n // len(own)], own[n % len(own)])
    return wanted


def _sets(
    alike: Sequence[Alike], by_home: Mapping[Any, GraphSegment], shared: Callable[[Alike], bool]
) -> Any:
    """Yields the place and the segments of each kernel."""
    ground = Alike((NOWHERE,), WORLD)
    forward = [(WORLD, ground), *enumerate(alike)]
    for backward, numbered in ((False, forward), (True, forward[::-1])):
        for number, group in numbered:
            if backward:
                for name, part in by_home.items():
                    if isinstance(name, Sums) and name.chain in group.members:
                        yield ArrayPart(name.group, True, chain=name.chain), [part]
            own = [by_home[h] for c in group.members if (h := Home(c, backward)) in by_home]
            if not own:
                continue
            if len(own) == len(group.members) and shared(group) and slots.are_alike(own):
                yield ArrayPart(number, backward), own
                continue
            for member, segment in enumerate(own):
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


def _tables(datapath: Datapath, constants: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The integers of constants that are inputs, by name."""
    found = {name: np.zeros(x.shape, np.int64) for name, x in constants.items()}
    for k, integer in _table_nodes(datapath, constants).items():
        name, i = datapath.graph.value[k]
        found[name].reshape(-1)[i] = integer
    return found


def _table_nodes(datapath: Datapath, constants: Mapping[str, np.ndarray]) -> dict[int, int]:
    """The integers of constants that are inputs, by node."""
    graph = datapath.graph
    return {
        k: round(constants[name].reshape(-1)[i] / datapath.format(k).step)
        for k in graph.nodes_of("input")
        for name, i in [graph.value[k]]
        if name in constants
    }
