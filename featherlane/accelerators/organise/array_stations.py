"""Several functions of a robot as arrays in stations: the two stations of a network, whose sweeps
over the tree are time-multiplexed among the robot's limbs, and whose product with M^-1 among its
columns.

A station is cut by limbs as a function alone is (`arrays`); the product, which the graph has as
calls of one step, comes behind the sweeps of the station that has it (`streams`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from featherlane.accelerators.organise.arrays import (
    ArrayPart,
    Arrays,
    Assign,
    Cutter,
    in_q16,
    kernels_of,
)
from featherlane.accelerators.organise.limb_graph import signed, wanted_by
from featherlane.accelerators.organise.limbs import Limbs
from featherlane.accelerators.organise.pass_graph import (
    FROM_FACTOR,
    STATIONS,
    outputs_of,
    parts_of,
    without_lost,
)
from featherlane.accelerators.organise.streams import (
    OPERANDS,
    RESULTS,
    KeptCall,
    KernelKey,
    circuit_of_step,
    kinds,
    without_calls,
)
from featherlane.algorithms.all_functions import all_functions
from featherlane.backends.fixed.cut import parted
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.prepare import rewritten
from featherlane.backends.fixed.slots import SlotKernel
from featherlane.functions.circuits import FACTOR
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.segments import (
    GraphSegment,
    entered_anew,
    entered_as_is,
    without_unread,
)
from featherlane.program.program import Y
from featherlane.program.rewrite import simplify
from featherlane.program.trace import COLUMNS, no_garbage, program_of
from featherlane.robot.chains import Alike
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

DERIVATIVES = ("dtau_dq", "dtau_dv")  # what the product reads


class StationKernels(NamedTuple):
    """The datapath of a station, and the kernels that compute it, in an order in which none needs a
    later one. Their nodes are those of the station's datapath.
    """

    datapath: Datapath
    kernels: tuple[SlotKernel, ...]


@dataclass(frozen=True, eq=False)
class StationArrays(Arrays):
    """Functions of a robot as kernels of stations."""

    @property
    def of_stations(self) -> dict[str, list[SlotKernel]]:
        """The kernels of each station, in an order in which none needs a later one."""
        kernels: dict[str, list[SlotKernel]] = {}
        for part, kernel in self.kernels.items():
            kernels.setdefault(STATIONS[part.station], []).append(kernel)
        if self.columns:
            kernels.setdefault(STATIONS[0], []).extend(self.columns.values())
        return kernels

    @property
    def stations(self) -> dict[str, StationKernels]:
        """The datapath and the kernels of each station."""
        whole, kernels = self.whole, self.of_stations
        part = [STATIONS[0]] * len(whole.graph)
        for station, station_kernels in kernels.items():
            for member in (member for kernel in station_kernels for member in kernel.members):
                for op, k in zip(member.graph.op, member.nodes, strict=True):
                    if op != "input":
                        part[k] = station
        return {
            name: StationKernels(
                part_datapath.datapath,
                tuple(_placed(kernel, part_datapath.node_map) for kernel in kernels[name]),
            )
            for name, part_datapath in parted(whole, part).items()
        }


def _placed(kernel: SlotKernel, place: Mapping[int, int]) -> SlotKernel:
    """Returns a kernel whose nodes of the flat datapath have other numbers."""
    numbers = lambda nodes: tuple(place[k] for k in nodes)
    members = [
        member._replace(
            reads=numbers(member.reads), gives=numbers(member.gives), nodes=numbers(member.nodes)
        )
        for member in kernel.members
    ]
    ports = [port._replace(nodes=numbers(port.nodes)) for port in kernel.ports]
    return replace(kernel, members=tuple(members), ports=tuple(ports))


def station_arrays(
    model: Robot,
    functions: Collection[str],
    shared: Callable[[Alike], bool] = lambda group: True,
    multiplexed: bool = True,
    assign: Assign = in_q16,
) -> StationArrays:
    """Returns some functions of a robot, by the factor of M, as arrays in stations.

    shared: tells of a group of alike chains whether one time-multiplexed kernel computes them;
    multiplexed: whether one computes columns of the product with M^-1. assign: gives the formats.
    """
    cutter = Cutter(model, shared, stations=_stations)
    main, calls, graphs = _traced(model, functions, cutter)
    flat, parts = cutter.cut(main)
    if calls:
        flat, parts, columns = _with_calls(flat, parts, calls, graphs)
    else:
        columns = []
    sets: dict[Any, list[GraphSegment]] = dict(cutter.sets(parts))
    if multiplexed:
        sets |= dict(kinds(columns))
    else:
        sets |= {KernelKey(0, n): [segment] for n, (_, segment) in enumerate(columns)}
    datapath, constants, sweeps = kernels_of(flat, sets, cutter.limbs, assign)
    kernels = {part: kernel for part, kernel in sweeps.items() if isinstance(part, ArrayPart)}
    columns_of = {part: kernel for part, kernel in sweeps.items() if isinstance(part, KernelKey)}
    flat_parts = tuple(cutter.chains), tuple(cutter.groups), datapath, constants, kernels
    return StationArrays(model, "functions", *flat_parts, columns_of)


def _stations(graph: Graph) -> list[int]:
    """The station of each node, by its place in their order."""
    return [STATIONS.index(part) for part in parts_of(graph)]


def _traced(
    model: Robot, functions: Collection[str], cutter: Cutter
) -> tuple[Graph, list[KeptCall], list[Graph]]:
    """Returns the graph of one pass with inputs for the constants in which limbs differ, without
    the columns of the product with M^-1; these calls, and the graphs of their functions.
    """
    wanted, limbs = outputs_of(functions), cutter.limbs
    product = "da_dq" in wanted
    kept = [*wanted, *(name for name in DERIVATIVES if product and name not in wanted)]

    def run(*scalars: Any) -> dict[str, Any]:
        *inputs, tree = _with_tree(limbs, scalars)
        results = all_functions(tree, *inputs, method=FACTOR)._asdict()
        return {name: results[name] for name in kept}

    n = model.nv
    shapes = {"q": (model.nq,), "v": (n,), "a": (n,), "tau": (n,), "minv": (n, n)}
    with no_garbage():
        program = program_of(run, shapes | limbs.inputs, COLUMNS)
        main, calls, graphs = without_calls(program)
        calls = calls if product else []  # else nothing reads their results
        if calls:
            chain = wanted_by(main, tree_of(model), cutter.chains, 0)
            of_node = {
                main.outputs[name].nodes[i]: c
                for (name, i), c in chain.items()
                if name in DERIVATIVES
            }
            cutter.wanted = {
                (OPERANDS, i): of_node[k]
                for i, k in enumerate(main.outputs[OPERANDS].nodes)
                if k in of_node
            }
        else:
            main.inputs.pop(RESULTS), main.outputs.pop(OPERANDS)
        main.outputs = {
            name: out for name, out in main.outputs.items() if name in {*wanted, OPERANDS}
        }
        graph = rewritten(signed(simplify(main)))
    return graph if {*FROM_FACTOR} & {*wanted} else without_lost(graph), calls, graphs


def _with_tree(limbs: Limbs, scalars: Sequence[Any]) -> list[Any]:
    """The inputs of the functions, and the tree with scalars in the place of constants."""
    count = len(scalars) - len(limbs.inputs)
    return [
        *scalars[:count],
        limbs.with_inputs(dict(zip(limbs.inputs, scalars[count:], strict=True))),
    ]


def _with_calls(
    flat: Graph,
    parts: Sequence[GraphSegment],
    calls: Sequence[KeptCall],
    graphs: Sequence[Graph],
) -> tuple[Graph, list[GraphSegment], list[tuple[KernelKey, GraphSegment]]]:
    """Returns the flat graph with the calls, which only results of the design read, behind all
    other nodes; its parts; and the segments of the calls.
    """
    new, place, result = Graph(), dict[int, int](), dict[int, int]()
    new.inputs = {name: x for name, x in flat.inputs.items() if name != RESULTS}
    for k, (op, args, value) in enumerate(zip(flat.op, flat.args, flat.value, strict=True)):
        if op == "input" and value[0] == RESULTS:
            result[value[1]] = k
            continue
        new.current_tag = flat.tag[k]
        place[k] = entered_anew(new, op, [place[a] for a in args], value)
    numbers = lambda nodes: tuple(place[k] for k in nodes)
    moved = [
        part._replace(
            reads=numbers(part.reads), gives=numbers(part.gives), nodes=numbers(part.nodes)
        )
        for part in parts
    ]
    circuits = [circuit_of_step(graph) for graph in graphs]
    called: list[tuple[KernelKey, GraphSegment]] = []
    operands = flat.outputs[OPERANDS].nodes
    for call in calls:
        assert call.level == 0, "the product is the last step"
        graph, read = without_unread(circuits[call.function])
        reads = tuple(place[operands[call.operands[i]]] for i in read)
        nodes = tuple(entered_as_is(graph, new, reads))
        gives = tuple(nodes[k] for k in graph.outputs[Y].nodes)
        key = KernelKey(0, call.function)
        called.append((key, GraphSegment(key, graph, reads, gives, nodes)))
        place |= {result[i]: k for i, k in zip(call.results, gives, strict=True) if i in result}
    new.outputs = {
        name: Output(out.shape, numbers(out.nodes))
        for name, out in flat.outputs.items()
        if name != OPERANDS
    }
    return new, moved, called
