"""Sensors: functions of a step, traced from the user's, whose results come with its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from featherlane.errors import did_you_mean, shown
from featherlane.functions.dynamics_function import STATE, DynamicsFunction, Sizes, V
from featherlane.functions.policy import Policy, Shapes
from featherlane.program.array import trace
from featherlane.program.graph import Graph, graph_key
from featherlane.program.rewrite import simplify
from featherlane.robot.shape_pairs import ContactNames

SENSED: Sizes = {**STATE, "tau": ("u",), "dt": (), "a": V, "q_next": ("q",), "v_next": V}
WITH_SENSORS = ("step", "policy_step", "rollout", "rollout_with")
WANTED = "wanted a dict of arrays by name, as in {'height': step.q_next[2]}"


@dataclass(frozen=True)
class StepRecord:
    """A step as sensors read it, with entries that are traced: q (nq,), rad or m, and v (nv,),
    rad/s or m/s, at its beginning; tau (nu,), N m or N, or controls; dt, s; its acceleration a
    (nv,), rad/s^2 or m/s^2, of methods with several stages that at the beginning; q_next and v_next
    at its end; and, with a ground, contact_force (contacts, 3), N, in the axes of the world.
    """

    q: Any
    v: Any
    tau: Any
    dt: Any
    a: Any
    q_next: Any
    v_next: Any
    contact_force: Any = None
    contacts: tuple[ContactNames, ...] | None = None

    def force_on(self, name: str) -> Any:
        """Returns the sum of contact forces (3,), N, on a shape, a link or a body of the robot, in
        the axes of the world. Raises ValueError for one without contacts.
        """
        total = np.zeros(3)
        for n, sign in self._touching(name):
            total = total + sign * self.contact_force[n]
        return total

    def touches(self, name: str) -> Any:
        """Returns 1 if a contact force acts on a shape, a link or a body of the robot, or 0. Raises
        ValueError for one without contacts.
        """
        places = [n for n, _ in self._touching(name)]
        return np.where(np.any(self.contact_force[places] != 0.0), 1.0, 0.0)

    def _touching(self, name: str) -> list[tuple[int, float]]:
        """Returns the contacts of a shape, link or body, with the sign of the force on it."""
        if self.contacts is None:
            raise ValueError(
                "the sensors have no contacts: wanted model.sensors(function, fl.Ground(...))"
            )
        both = [(c[:3], c[3:]) for c in self.contacts]
        places = [(n, 1.0) for n, (names, _) in enumerate(both) if name in names]
        places += [(n, -1.0) for n, (_, names) in enumerate(both) if name in names[1:] or (
            names[1] and name == names[0])]  # fmt: skip
        if not places:
            known = [*dict.fromkeys(x for c in self.contacts for x in (*c[:3], *c[3:]) if x)]
            raise ValueError(
                f"no contact is on {name!r}: wanted one of {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
        return places


@dataclass(frozen=True)
class Sensors:
    """A function of a step as a graph, whose text is what it is compared by; the shapes of its
    arrays, and of the parameters that it takes; and the contacts of the ground, None without one.

    Examples:
        >>> arm.sensors(lambda step: {"effort": step.tau @ step.tau}).shapes
        {'effort': ()}
    """

    key: str
    arrays: Shapes
    parameters: Shapes
    contacts: tuple[ContactNames, ...] | None
    graph: Graph = field(compare=False, repr=False)

    @classmethod
    def traced(
        cls,
        function: Callable[..., Any],
        sizes: Mapping[str, int],
        parameters: Mapping[str, int | Sequence[int]],
        contacts: tuple[ContactNames, ...] | None,
    ) -> Sensors:
        """Traces a function of a step. sizes: of q, v and the controls; parameters: shapes by name.
        Raises TypeError for results that are no dict.
        """
        inputs: dict[str, Any] = {
            name: tuple(sizes[str(x)] for x in size) for name, size in SENSED.items()
        }
        if contacts is not None:
            inputs["contact_force"] = (len(contacts), 3)

        def run(*values: Any) -> dict[str, Any]:
            count = len(inputs)
            step = StepRecord(**dict(zip(inputs, values[:count], strict=True)), contacts=contacts)
            results = function(step, **dict(zip(parameters, values[count:], strict=True)))
            if not isinstance(results, Mapping) or not results:
                raise TypeError(f"the sensors return {shown(results)}: {WANTED}")
            return dict(results)

        graph = simplify(trace(run, {**inputs, **parameters}))
        arrays = tuple((name, output.shape) for name, output in graph.outputs.items())
        shapes = tuple((name, graph.inputs[name]) for name in parameters)
        return cls(graph_key(graph), arrays, shapes, contacts, graph)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array by its name."""
        return dict(self.arrays)

    @property
    def entry(self) -> DynamicsFunction:
        """The row of a table of functions that these sensors are."""
        inputs = dict(SENSED)
        if self.contacts is not None:
            inputs["contact_force"] = (len(self.contacts), 3)
        inputs |= dict(self.parameters)
        return DynamicsFunction(inputs, self.sizes("next"), (), ("actuation",))

    def sizes(self, when: str, rows: tuple[str, ...] = ()) -> Sizes:
        """Returns the sizes of the arrays, by the names that outputs have."""
        return {f"{name}_{when}": (*rows, *shape) for name, shape in self.arrays}


Sensing = tuple[Sensors | None, tuple[Any, ...]]  # and the values of their parameters


def with_sensors(sensors: Any, parameters: Mapping[str, Any] | None) -> Sensing:
    """Returns the sensors of a call, if it has any, with the values of their parameters. Raises
    TypeError.
    """
    others, sensing = split_parameters(sensors, parameters)
    if others:
        raise TypeError(
            f"parameters has {', '.join(map(str, others))}: wanted those of sensors, which have "
            f"{', '.join(dict(sensors.parameters) if sensors else ()) or 'none'}"
        )
    return sensing


def split_parameters(
    sensors: Any, parameters: Mapping[str, Any] | None, policy: Policy | None = None
) -> tuple[dict[str, Any], Sensing]:
    """Returns the parameters of a policy, which may be those of sensors too, and the sensors with
    the values of all others. Raises TypeError.
    """
    others = dict(parameters or {})
    if sensors is None:
        return others, (None, ())
    if not isinstance(sensors, Sensors):
        raise TypeError(
            f"sensors is {shown(sensors)}: wanted those that model.sensors(function) returns"
        )
    of_policy = dict(policy.parameters) if policy else {}
    names = [name for name, _ in sensors.parameters if name not in of_policy]
    if missing := [name for name in names if name not in others]:
        raise TypeError(f"parameters misses {', '.join(missing)}, which the sensors read")
    values = tuple(others.pop(name) for name in names)
    return others, (sensors, values)
