"""The boxes of the drawings: what a design does in each step of the algorithm at each joint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from featherlane.backends.fpga import netlist as netlists
from featherlane.backends.fpga.arrays.design import ArrayDesign
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.resources import Resources
from featherlane.backends.fpga.verilog import Design

SHARED = "shared"  # the step of units that several joints share


class Slot(NamedTuple):
    """An operation on a unit: the cycle of a task in which it starts, and what it is."""

    cycle: int
    operation: str


class Unit(NamedTuple):
    """A unit that operations share, in each phase of the interval one. kind: as in a `Pipeline`."""

    kind: str
    slots: tuple[Slot, ...]


class Box(NamedTuple):
    """The modules of a step of the algorithm at a joint.

    name: as in Dadu-RBD (2023), such as Df3; step: the name without the joint; joint: from 0, None
    of what belongs to none. work: how many operations start in each cycle of a task; last: the
    cycle in which the last result is there; reads: the boxes whose results it reads.
    """

    name: str
    step: str
    joint: int | None
    modules: tuple[str, ...]
    work: dict[int, int]
    last: int
    needs: Resources
    units: tuple[Unit, ...]
    reads: frozenset[str]

    @property
    def first(self) -> int:
        return min(self.work, default=0)


class _Place(NamedTuple):
    """A pipeline, the tags of its nodes and of what it reads (None of inputs), and the cycle of the
    task that each of its own is. Of a time-multiplexed array there is one for each slot.
    """

    design: Design
    tags: Sequence[object]
    cycle: Callable[[int], int] = int


def boxes(design: Design, cost: DesignCost) -> list[Box]:
    """The boxes of a design, in the order in which they start. A module that
    time-multiplexed limbs share is drawn once, at the first limb.
    """
    work, last = defaultdict[str, Counter[int]](Counter), Counter[str]()
    reads = defaultdict[str, set[str]](set)
    starts = defaultdict[tuple[str, netlists.Unit], list[Slot]](list)  # by module and unit
    module_of, step_of = dict[str, str](), dict[str, object]()
    for place in _places(design):
        netlist, pipeline = place.design.netlist, place.design.pipeline
        graph, cycle = netlist.graph, place.cycle
        names = [_name(tag) for tag in place.tags]
        step_of |= {_name(tag): tag for tag in place.tags}
        for k, operator in enumerate(pipeline.operators):
            if not graph.args[k]:
                continue
            module_of.setdefault(
                netlist.home[k], names[k]
            )  # at the first of time-multiplexed limbs
            before = [a for a in graph.args[k] if graph.args[a] or place.tags[a] is not None]
            reads[names[k]] |= {names[a] for a in before}
            if operator:
                work[names[k]][cycle(pipeline.start[k])] += 1
                last[names[k]] = max(last[names[k]], cycle(pipeline.ready(k)))
        for unit, nodes in netlist.units.items():
            slots = [Slot(cycle(pipeline.start[k]), f"{graph.op[k]} %{k}") for k in nodes]
            starts[netlist.unit_home[unit[0]], unit] += slots
    units = defaultdict[str, list[Unit]](list)
    for (home, (_, kind, _)), slots in starts.items():
        name = module_of.setdefault(home, SHARED)
        units[name].append(Unit(kind, tuple(sorted(slots))))
    modules, needs = _modules(design, cost, module_of)
    boxes_of_design = []
    for name in dict.fromkeys([*work, *needs]):
        tag = step_of.get(name)
        joint = getattr(tag, "joint", None)
        step = name if joint is None else f"{tag.algorithm}{tag.direction}"  # type: ignore[attr-defined]
        others = frozenset(reads[name] - {name})
        placed = tuple(modules[name]), dict(work[name]), last[name]
        boxes_of_design.append(
            Box(name, step, joint, *placed, needs[name], tuple(units[name]), others)
        )
    return sorted(boxes_of_design, key=lambda box: (box.first, box.last))


def _modules(
    design: Design, cost: DesignCost, box_of: Mapping[str, str]
) -> tuple[dict[str, list[str]], dict[str, Resources]]:
    """The modules of each box and what they need. box_of: the box of each module; modules without
    one, such as the top module, are of the inputs.
    """
    modules = defaultdict[str, list[str]](list)
    needs = defaultdict[str, Resources](Resources)
    for module, needed in cost.modules.items():
        if not f"{module}_".startswith(f"{design.name}_"):
            continue  # of another station
        name = box_of.get(module, "inputs")
        modules[name].append(module)
        needs[name] += needed
    return modules, needs


def _places(design: Design) -> Iterator[_Place]:
    """Yields the pipelines of a design."""
    if not isinstance(design, ArrayDesign):
        graph = design.netlist.graph
        yield _Place(design, [tag if graph.args[k] else None for k, tag in enumerate(graph.tag)])
        return
    whole = design.datapath.graph
    for circuit, array in zip(design.circuits, design.arrays, strict=False):
        for slot, member in enumerate(array.kernel.members):
            tags: list[object] = [None] * len(array.datapath.graph)
            for place, k in zip(array.kernel.node_map, member.nodes, strict=True):
                tags[place] = whole.tag[k] if whole.args[k] else None
            yield _Place(circuit, tags, partial(array.cycle, slot))


def _name(tag: object) -> str:
    return "other" if tag is None else str(tag)
