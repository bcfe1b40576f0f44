"""The user's methods for sensors: forces of contacts, and functions of a step that come with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from featherlane.api.rollouts import TAKEN, Rollouts, Shape, check_names
from featherlane.functions.actuation import Actuated
from featherlane.functions.ground_inputs import GroundInputs, checked_ground
from featherlane.functions.results import GROUND_FIELDS
from featherlane.functions.sensors import SENSED, Sensors
from featherlane.functions.variants import actuation_of
from featherlane.program.trace import check_function
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.ground import Ground
from featherlane.robot.shape_pairs import ContactNames

OTHERS = {*TAKEN, *SENSED, *GROUND_FIELDS}  # names of other arrays of a step


class Sensing(Rollouts):
    """Sensors of a `featherlane.Model` in steps and rollouts."""

    def contact_names(self, ground: Ground) -> tuple[ContactNames, ...]:
        """Returns the names of what touches at each entry of `contact_force`, in its order: the
        shape of the robot, with its link and body, and the surface, or the other shape.

        Examples:
            >>> free = fl.load("double_pendulum", root="free")
            >>> tip = fl.CollisionShape("tip", "sphere", (0.03,))
            >>> names = free.with_collision_shapes({"link2": tip}).contact_names(fl.Ground())
            >>> [(each.shape, each.other) for each in names]
            [('tip', 'ground')]
        """
        return GroundInputs(checked_ground(ground), Coulomb()).contact_names(self)

    def sensors(
        self,
        function: Callable[..., Mapping[str, Any]],
        ground: Ground | None = None,
        parameters: Mapping[str, Shape] | None = None,
        *,
        actuation: Actuated = None,
    ) -> Sensors:
        """Traces function(step, **arrays), which returns {name: array} for a step: observations,
        rewards, whatever follows from it. The results of `step`, `rollout` and `rollout_with` with
        these sensors have the arrays by name, (..., T, ...) of rollouts, out of the same call of
        machine code. step is a `StepRecord`: q, v, tau, dt and a at its beginning, q_next and
        v_next at its end, and with a ground contact_force, `force_on` and `touches`.

        ground: that of the calls, if they have one. parameters: the shapes of further arrays by
        name, which calls take as parameters=. actuation: that of the calls, if tau are controls.
        The function may call methods of this model, as `imu`, which have its constants also where
        `params` replaces them. Raises TypeError or ValueError for a function that cannot be traced,
        and for names that are taken.

        Examples:
            >>> def readings(step, goal):
            ...     miss = step.q_next - goal
            ...     return {"imu": arm.imu(step.q, step.v, step.a, "link2"), "cost": miss @ miss}
            >>> sensors = arm.sensors(readings, parameters={"goal": 2})
            >>> options = {"sensors": sensors, "parameters": {"goal": [0.5, 0.0]}}
            >>> moved = arm.rollout(q, v, np.zeros((50, 2)), dt, **options)
            >>> moved.imu.shape, moved.cost.shape
            ((50, 6), (50,))
        """
        shapes = dict(parameters or {})
        check_names("parameters", shapes, OTHERS)
        check_function(function, ["step"], [*shapes])
        built = actuation_of(self, actuation)
        sizes = {"q": self.nq, "v": self.nv, "u": built.controls if built else self.nv}
        contacts = None if ground is None else self.contact_names(ground)
        sensors = Sensors.traced(function, sizes, shapes, contacts)
        check_names("sensors", sensors.shapes, {*OTHERS, *shapes})
        return sensors
