"""The flat graph of a function of a robot for arrays: limbs that are alike as one graph, and which
chain of bodies each entry of its inputs and outputs belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from featherlane.accelerators.organise.limbs import SIGNS, VALUES, Limbs
from featherlane.backends.fixed.prepare import rewritten
from featherlane.functions.circuits import CIRCUITS, algorithm_of
from featherlane.functions.dynamics_function import Algorithm
from featherlane.functions.step_functions import entry_of
from featherlane.functions.table import Variant
from featherlane.functions.variants import input_shapes, output_shapes
from featherlane.program.analysis.partition import Entry
from featherlane.program.graph import Graph, Output
from featherlane.program.rewrite import rewrite, simplify
from featherlane.program.trace import no_garbage, trace
from featherlane.robot.chains import Alike, Chain
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.tree import Tree


def traced(model: Robot, variant: Variant, name: str | None, limbs: Limbs) -> Graph:
    """The flat graph of a function with inputs for the constants in which limbs differ."""
    algorithm = _algorithm(model, variant, name)
    shapes, outputs = input_shapes(model, variant), output_shapes(model, variant)

    def run(*inputs: Any) -> dict[str, Any]:
        scalars = dict(zip([*shapes, *limbs.inputs], inputs, strict=True))
        tree = limbs.with_inputs({key: scalars.pop(key) for key in limbs.inputs})
        return dict(zip(outputs, algorithm(tree, *scalars.values()), strict=True))

    with no_garbage():
        return rewritten(signed(simplify(trace(run, shapes | limbs.inputs))))


def _algorithm(model: Robot, variant: Variant, name: str | None) -> Algorithm:
    chosen = algorithm_of(model, variant, name, proved=False)
    return entry_of(variant).algorithms[0] if chosen is None else CIRCUITS[variant.name][chosen]


def signed(graph: Graph) -> Graph:
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


def first_freedoms(model: Robot) -> int:
    """The freedoms of the first joint, if it is a root of several; else 0."""
    count = model.types[0].nv
    return count if count > 1 and model.joints[0].parent == WORLD else 0


def without_root(graph: Graph, nv: int, free: int) -> Graph:
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


def wanted_by(graph: Graph, tree: Tree, chains: Sequence[Chain], free: int) -> dict[Entry, int]:
    """The chain that gives each entry of outputs of a freedom, or of the further one of two."""
    chain_of = {i: c for c, chain in enumerate(chains) for i in chain.bodies}
    owners_of = [chain_of[i] for i in tree.owners[free:]]
    wanted: dict[Entry, int] = {}
    for name, out in graph.outputs.items():
        if out.shape == (len(owners_of),):
            wanted |= {(name, i): c for i, c in enumerate(owners_of)}
        elif out.shape == (len(owners_of), len(owners_of)):
            for n in range(len(owners_of) ** 2):
                wanted[name, n] = max(owners_of[n // len(owners_of)], owners_of[n % len(owners_of)])
    return wanted


def owners(
    tree: Tree, chains: Sequence[Chain], alike: Sequence[Alike], limbs: Limbs
) -> dict[Entry, int]:
    """The chain of each entry of inputs."""
    found_of: dict[Entry, int] = {}
    for c, chain in enumerate(chains):
        for i in chain.bodies:
            found_of |= {("q", source.k): c for source in tree.sources[i]}
            found_of |= {(name, k): c for name in ("v", "a", "tau") for k, _ in tree.freedoms[i]}
    for name, (_, entries) in limbs.inputs.items():
        number = int(name.removeprefix(SIGNS).removeprefix(VALUES))
        for member, c in enumerate(alike[number].members):
            found_of |= {(name, member * entries + i): c for i in range(entries)}
    return found_of
