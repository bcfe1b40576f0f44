"""One graph for the seven functions of a robot, and what each function reads and gives of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from featherlane.algorithms.all_functions import all_functions
from featherlane.backends.fixed.cut import nodes_behind
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fixed.ranges import Bounds
from featherlane.errors import one_of, shown
from featherlane.functions.circuits import BOUNDED, DEFERRED, FACTOR, mass_bounds_of, with_rotations
from featherlane.functions.table import FUNCTIONS, Variant
from featherlane.functions.tracing import solvable
from featherlane.functions.variants import input_shapes
from featherlane.functions.wrenches import wrenches_on
from featherlane.program.graph import Graph, Output
from featherlane.program.passes.guards import LOST
from featherlane.program.rewrite import simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

METHODS = DEFERRED, FACTOR, BOUNDED  # of M^-1
STATIONS = PASS, FACTORS = "pass", "factor"  # the parts of a design; none reads a later one


class Share(NamedTuple):
    """The part of a pass that a function uses: inputs, wrenches where the graph has them, and
    outputs, by the names of the graph and then of the function. passes: how many it takes.
    """

    inputs: tuple[str, ...]
    outputs: dict[str, str]
    passes: int = 1

    @property
    def of_pass(self) -> dict[str, str]:
        """The name in the graph of each output of the function."""
        return {result: output for output, result in self.outputs.items()} | {LOST: LOST}


STATE = ("q", "v")
NO_WRENCHES = Variant("inverse_dynamics")
SHARES: dict[str, Share] = {
    "inverse_dynamics": Share((*STATE, "a", "f_ext"), {"tau": "tau"}),
    "forward_dynamics": Share((*STATE, "tau", "f_ext"), {"a": "a"}),
    "mass_matrix": Share(("q",), {"M": "M"}),
    "mass_matrix_inverse": Share(("q",), {"Minv": "Minv"}),
    "inverse_dynamics_derivatives": Share(
        (*STATE, "a", "f_ext"), {"dtau_dq": "dtau_dq", "dtau_dv": "dtau_dv"}
    ),
    "forward_dynamics_derivatives_from": Share(
        (*STATE, "a", "minv", "f_ext"), {"da_dq": "da_dq", "da_dv": "da_dv"}
    ),
    "forward_dynamics_derivatives": Share(
        (*STATE, "tau", "f_ext"), {"da_dq": "da_dq", "da_dv": "da_dv", "Minv": "da_dtau"}, 2
    ),
}
"""By function; their order is that of the codes of micro-instructions."""
FROM_FACTOR = ("Minv", "a")  # outputs of the graph that need the factor of M


def variant_of(name: str, wrenches: Variant) -> Variant:
    """A function by name, with the axes and frames of `wrenches` if it takes any."""
    takes = "f_ext" in FUNCTIONS[name].takes
    return wrenches._replace(name=name) if takes else Variant(name)


def outputs_of(functions: Collection[str]) -> list[str]:
    """Returns the outputs of the graph that some functions need, those of their passes among
    them.
    """
    wanted = {name for function in functions for name in SHARES[function].outputs}
    if any(SHARES[function].passes > 1 for function in functions):
        wanted |= {"a", "Minv"}
    if wanted & {*FROM_FACTOR}:
        wanted |= {"M", "tau"} if "a" in wanted else {"M"}  # what the factor reads
    return [name for name in ("tau", "M", "dtau_dq", "dtau_dv", "da_dq", "da_dv", "Minv", "a")
            if name in wanted]  # fmt: skip


def all_functions_graph(
    model: Robot,
    functions: Collection[str],
    method: str,
    inputs: Bounds,
    wrenches: Variant = NO_WRENCHES,
) -> Graph:
    """Returns the graph of one pass, ready for circuits, with the outputs that functions need.

    method: of M^-1, one of METHODS. inputs: the bounds of entries of inputs, on which depend those
    that "bounded" states. wrenches: inverse dynamics with their axes and frames. Raises
    CompileError for what no circuit computes.
    """
    if method not in METHODS:
        raise ValueError(f"algorithm is {shown(method)}: {one_of(method, METHODS)}")
    options: dict[str, Any] = {}
    if method == BOUNDED:
        options["bounds"] = mass_bounds_of(model, inputs)
        options["ends"] = [inputs["a", i][:2] for i in range(model.nv)]
    tree, wanted = tree_of(model), outputs_of(functions)

    def run(*scalars: Any) -> dict[str, Any]:
        if wrenches.wrenches:
            *scalars, f_ext = scalars  # type: ignore[assignment]
            options.update(wrenches_on(model, tree, wrenches, scalars[0], f_ext))
        results = all_functions(tree, *scalars, method=method, **options)._asdict()
        return {name: results[name] for name in wanted}

    n = model.nv
    shapes = {"q": (model.nq,), "v": (n,), "a": (n,), "tau": (n,), "minv": (n, n)}
    if wrenches.wrenches:
        shapes["f_ext"] = input_shapes(model, wrenches)["f_ext"]
    with solvable(model, Variant("mass_matrix_inverse")), no_garbage():
        graph = simplify(trace(run, shapes))
    graph = prepared(with_rotations(model, graph) if method == BOUNDED else graph)
    return graph if {*FROM_FACTOR} & {*wanted} else without_lost(graph)


def without_lost(graph: Graph) -> Graph:
    """Returns the graph without its count of lost divisors, for functions that use neither M^-1 nor
    FD: only results of the factor carry that count, and normalising a free joint's quaternion would
    make it the only output of that station.
    """
    outputs = {name: out for name, out in graph.outputs.items() if name != LOST}
    return simplify(graph.replaced(outputs=outputs))


def parts_of(graph: Graph) -> list[str]:
    """Returns the part of a design that each node is of: "pass", or "factor" for what only M^-1 and
    what is multiplied by it need.
    """
    in_pass = nodes_behind(graph, [n for n in graph.outputs if n not in (*FROM_FACTOR, LOST)])
    return [PASS if k in in_pass else FACTORS for k in range(len(graph))]


# A function alone, as a datapath of its own


def function_datapath(whole: Datapath, function: str) -> Datapath:
    """Returns the datapath of one function, which gives the integers that a design of all does. A
    function of two passes has both of them in it.
    """
    share = SHARES[function]
    composed = _Composed(whole)
    if share.passes == 1:
        zero = () if "a" in share.inputs else ("a",)
        return composed.finished(share, composed.passed(composed.leaves(share.inputs, zero)))
    first = composed.leaves(share.inputs, ("a",))
    results = composed.passed(
        first, [name for name in whole.graph.outputs if name in (*FROM_FACTOR, LOST)]
    )
    again = {**first, "a": composed.saturated(results["a"], "a")}
    again["minv"] = composed.saturated(results["Minv"], "minv")
    second = composed.passed(again, ["da_dq", "da_dv"])
    return composed.finished(share, {**results, **second})


Entries = dict[int, int]  # by position, a node


class _Composed:
    """A datapath that is made of passes of another one."""

    def __init__(self, whole: Datapath) -> None:
        self.whole, self.graph = whole, Graph()
        self.formats: list[Format | None] = []
        self.fused = set[int]()
        self.inputs = {
            name: {
                whole.graph.value[k][1]: k
                for k in whole.graph.nodes_of("input")
                if whole.graph.value[k][0] == name
            }
            for name in whole.graph.inputs
        }

    def enter(
        self,
        op: str,
        args: tuple[int, ...],
        form: Format | None,
        value: Any = None,
        tag: Any = None,
    ) -> int:
        self.graph.op.append(op)
        self.graph.args.append(args)
        self.graph.value.append(value)
        self.graph.tag.append(tag)
        self.formats.append(form)
        return len(self.graph) - 1

    def leaves(self, read: Collection[str], zero: Collection[str]) -> dict[str, Entries]:
        """Enters inputs, and zeros in the place of others."""
        leaves: dict[str, Entries] = {}
        for name, entries in self.inputs.items():
            leaves[name] = {}
            for position, k in entries.items():
                form = self.whole.formats[k]
                if name in read:
                    leaves[name][position] = self.enter("input", (), form, (name, position))
                elif name in zero:
                    leaves[name][position] = self.enter("constant", (), form, 0.0)
        return leaves

    def passed(
        self, inputs: Mapping[str, Entries], outputs: Collection[str] | None = None
    ) -> dict[str, list[int]]:
        """Enters a pass and returns the nodes of its outputs, as far as its inputs are given."""
        whole = self.whole.graph
        wanted = nodes_behind(whole, whole.outputs if outputs is None else outputs)
        place: dict[int, int] = {}
        for k, (op, args, value) in enumerate(zip(whole.op, whole.args, whole.value, strict=True)):
            if op == "input" and value[1] in inputs[value[0]]:
                place[k] = inputs[value[0]][value[1]]
            elif op != "input" and k in wanted and all(a in place for a in args):
                form = self.whole.formats[k]
                operands = tuple(place[a] for a in args)
                place[k] = self.enter(op, operands, form, value, whole.tag[k])
                if k in whole.facts:
                    self.graph.facts[place[k]] = whole.facts[k]
                if k in self.whole.fused:
                    self.fused.add(place[k])
        return {
            name: [place[k] for k in out.nodes]
            for name, out in whole.outputs.items()
            if all(k in place for k in out.nodes)
        }

    def saturated(self, nodes: list[int], name: str) -> Entries:
        """Enters what feedback does: the entries of an output as an input takes them, the nearest
        number that its format holds, rounded down.
        """
        saturated = {}
        for position, k in self.inputs[name].items():
            form, x = self.whole.format(k), nodes[position]
            tag = self.graph.tag[x]
            low, high = (
                self.enter("constant", (), form, end * form.step) for end in (form.least, form.most)
            )
            below, above = self.enter("less", (x, low), None), self.enter("less", (high, x), None)
            least = self.enter("select", (below, low, x), form, tag=tag)
            saturated[position] = self.enter("select", (above, high, least), form, tag=tag)
        return saturated

    def finished(self, share: Share, results: Mapping[str, list[int]]) -> Datapath:
        """Returns the datapath with the outputs of a function, without dead nodes."""
        shapes = {name: out.shape for name, out in self.whole.graph.outputs.items()}
        for name, of_function in share.outputs.items():
            self.graph.outputs[of_function] = Output(shapes[name], tuple(results[name]))
        if LOST in results and set(share.outputs) & {*FROM_FACTOR}:
            self.graph.outputs[LOST] = Output(shapes[LOST], tuple(results[LOST]))
        shapes = self.whole.graph.inputs
        self.graph.inputs = {name: shapes[name] for name in shapes if name in share.inputs}
        needed = [k for k, live in enumerate(self.graph.live()) if live]
        formats = tuple(self.formats[k] for k in needed)
        fused = frozenset(n for n, k in enumerate(needed) if k in self.fused)
        return Datapath(simplify(self.graph), formats, fused)
