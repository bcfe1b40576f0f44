"""The facts on a robot that `featherlane info` and `list` show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from featherlane.api.model import Model, load
from featherlane.functions.functions_of import functions_of
from featherlane.robot.constraint_types import name_of

FACTS = ("name", "source", "root", "nbodies", "nq", "nv", "mass", "ground_mass", "gravity")
KINDS = ("add", "mul", "div", "sqrt", "trig", "select")  # of `Cost`: graphs here are not fused yet
LEGEND = """\
operations: additions and multiplications. depth: the longest chain of operations.
live: the most values that wait for a later use at one time."""


def of_model(model: Model) -> dict[str, Any]:
    """The model card as data: masses in kg, lengths in m, angles in rad."""
    joints = [
        {
            "name": joint.name,
            "type": joint.type,
            "parent": joint.parent,
            "body": body.name,
            "q": [first_q, first_q + kind.nq],
            "v": [first_v, first_v + kind.nv],
            "axis": joint.axis,
            "lower": joint.lower,
            "upper": joint.upper,
            "velocity": joint.velocity,
            "effort": joint.effort,
            "mass": body.mass,
        }
        for joint, body, kind, first_q, first_v in zip(
            model.joints, model.bodies, model.types, model.first_q, model.first_v, strict=True
        )
    ]
    frames = [{"name": frame.name, "body": frame.body} for frame in model.frames]
    facts = {name: getattr(model, name) for name in FACTS}
    limits = {
        "position_limits": {k: x.tolist() for k, x in model.position_limits._asdict().items()},
        "velocity_limits": model.velocity_limits.tolist(),
        "effort_limits": model.effort_limits.tolist(),
    }
    loops = [name_of(closure.constraint) for closure in model.loop_closures]
    shapes = [
        {
            "name": shape.name,
            "kind": shape.kind,
            "body": shape.body,
            "size": shape.size,
            "friction": shape.friction,
            "points": len(shape.points),
        }
        for shape in model.collision_shapes
    ]
    lists = {"joints": joints, "loops": loops, "collision_shapes": shapes}
    lists |= {"frames": frames, "notes": model.notes}
    return {**facts, **limits, **lists}


def costs(model: Model) -> dict[str, dict[str, int]]:
    """The operations of one state by function; none for a robot that cannot move."""
    names = functions_of(model) if model.nv else ()
    counted = {name: model.graph(name).cost() for name in names}
    return {
        name: {"operations": c.operations, "depth": c.depth, "live": c.live}
        | {kind: c.kinds[kind] for kind in KINDS}
        for name, c in counted.items()
    }


def cost_table(costs: Mapping[str, Mapping[str, int]]) -> str:
    """A row for each function."""
    columns = ("operations", *KINDS, "depth", "live")
    row = "{:35}{:>12}{:>7}{:>7}{:>5}{:>6}{:>6}{:>8}{:>7}{:>7}".format
    rows = (row(f"  {name}", *map(c.__getitem__, columns)) for name, c in costs.items())
    return "\n".join([row("function, one state", *columns), *rows, LEGEND])


def of_bundled(name: str) -> dict[str, Any]:
    """A row of `featherlane list`, with a fixed root."""
    model = load(name, loops="keep")
    return {"name": name} | {fact: getattr(model, fact) for fact in ("nbodies", "nq", "nv", "mass")}


def robot_table(robots: Iterable[Mapping[str, Any]]) -> str:
    """A row for each robot."""
    row = "{:17}  {:>6}  {:>2}  {:>8}".format
    rows = (row(r["name"], r["nbodies"], r["nv"], f"{r['mass']:.4g}") for r in robots)
    return "\n".join([row("robot, root fixed", "joints", "nv", "mass, kg"), *rows])
