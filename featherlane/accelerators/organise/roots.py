"""The root of a robot for circuits: the body from which its tree is the shallowest, and what the
root's own motion is.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.accelerators.organise.arrays import COMPUTED, PRESCRIBED
from featherlane.backends.fixed.assign import uniform
from featherlane.backends.fixed.prepare import prepared
from featherlane.backends.fpga.devices import Device, operators
from featherlane.errors import shown
from featherlane.functions.circuits import algorithm_of, circuit_graph
from featherlane.functions.table import Variant
from featherlane.program.analysis.modulo import shortest_latency
from featherlane.robot.editing.reduce import reduced
from featherlane.robot.editing.reroot import on_free_joint
from featherlane.robot.editing.split_root import split_root
from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD
from featherlane.robot.walk import children

IGNORED = "ignored"
MODES = COMPUTED, PRESCRIBED, IGNORED
PATH = "inverse_dynamics_derivatives"  # the function by whose path roots are compared


class RootChoice(NamedTuple):
    """A body as the root: the joints below it on the longest way, and of the derivatives of inverse
    dynamics the cycles of the critical path and the products.
    """

    body: str
    depth: int
    cycles: int
    products: int


def rooted(
    model: Robot, body: str | None, mode: str, device: Device, reasons: list[str]
) -> tuple[Robot, tuple[RootChoice, ...]]:
    """Returns the robot at the root that is chosen, and what was compared."""
    first = model.joints[0]
    several = any(joint.parent == WORLD for joint in model.joints[1:])
    if mode == IGNORED and not several and first.kind.nv > 1:
        reasons.append(f"The root is ignored: {first.name} is fixed.")
        return reduced(model, {first.name: first.kind.neutral}), ()
    if first.type != "free" or several:
        return model, ()
    names = [b.name for b in model.bodies]
    if body is not None:
        if body not in names:
            raise ValueError(f"root is {shown(body)}: wanted a body of {model.name}")
        return model if body == names[0] else on_free_joint(model, names.index(body)), ()
    return _best(model, device, reasons)


def _best(model: Robot, device: Device, reasons: list[str]) -> tuple[Robot, tuple[RootChoice, ...]]:
    """Returns the robot at the root with the shortest path among those that take no more products
    than the present one, and what was compared, the best one first.
    """
    robots = {model.bodies[b].name: on_free_joint(model, b) for b in _central(model)}
    figures = {
        name: RootChoice(name, _depth(robot), *_path(robot, device))
        for name, robot in robots.items()
    }
    now = figures[model.bodies[0].name]
    best = min(
        (x for x in figures.values() if x.products <= now.products),
        key=lambda x: (x.cycles, x.products),
    )
    others = [x for x in figures.values() if x is not best]
    for other in others:
        reasons.append(
            f"Root {best.body}, not {other.body}: derivatives take {best.cycles} cycles and "
            f"{best.products:,} products, {other.cycles} and {other.products:,} from there; the "
            f"longest branch has {best.depth} joints, {other.depth} from there."
        )
    split = _path(split_root(robots[best.body]), device)
    reasons.append(_about_split_root(split, best))
    return robots[best.body], (best, *others)


def _about_split_root(split: tuple[int, int], best: RootChoice) -> str:
    """A sentence on a free root in two joints: `split` are its cycles and products."""
    cycles, products = split
    if split >= (best.cycles, best.products):
        return (
            "The free root is one joint: split in translation and rotation, derivatives would "
            f"take {cycles} cycles and {products:,} products."
        )
    return (
        f"Split in translation and rotation, the free root would take {cycles} cycles and "
        f"{products:,} products: `split_root` of the robot has it."
    )


def _central(model: Robot) -> list[int]:
    """The present root, and the bodies from which the longest branch is the shortest."""
    parents = [joint.parent for joint in model.joints]
    near = children(parents)
    lengths = []
    for b in range(model.nbodies):
        seen, edge = {b}, [b]
        far = -1
        while edge:
            far += 1
            around = {k for body in edge for k in (*near[body], parents[body])}
            edge = [*around - seen - {WORLD}]
            seen.update(edge)
        lengths.append(far)
    return [b for b, far in enumerate(lengths) if far == min(lengths) or b == 0]


def _depth(model: Robot) -> int:
    depth = {WORLD: 0}
    for i, joint in enumerate(model.joints):
        depth[i] = depth[joint.parent] + 1
    return max(depth.values()) - 1  # without the root joint


def _path(model: Robot, device: Device) -> tuple[int, int]:
    """The cycles of the critical path and the products of derivatives of inverse dynamics."""
    variant = Variant(PATH)
    chosen = algorithm_of(model, variant, None, proved=False)
    datapath = uniform(prepared(circuit_graph(model, variant, chosen, {})), "q16.16")
    units = operators(datapath, device)
    return shortest_latency(datapath.graph, units, device.clock), datapath.graph.op.count("mul")
