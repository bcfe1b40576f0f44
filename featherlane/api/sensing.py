"""The user's methods for sensors: forces of contacts, and functions of a step that come with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from featherlane.api.rollouts import TAKEN, Rollouts, Shape, check_names
from featherlane.api.time_steps import checked_time_steps
from featherlane.functions.actuation import Actuated
from featherlane.functions.array_like import ArrayLike, Params, Threads, Wrenches, WrenchFrame
from featherlane.functions.constraint_inputs import with_constraints
from featherlane.functions.ground_inputs import GroundInputs, checked_ground, with_ground
from featherlane.functions.results import GROUND_FIELDS, ContactForwardDynamics
from featherlane.functions.sensors import SENSED, Sensors
from featherlane.functions.variants import actuation_of
from featherlane.program.trace import check_function
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import ContactLaw, Coulomb
from featherlane.robot.ground import Ground
from featherlane.robot.shape_pairs import ContactNames

OTHERS = {*TAKEN, *SENSED, *GROUND_FIELDS}  # names of other arrays of a step


class Sensing(Rollouts):
    """Contacts of a `featherlane.Model` with the ground, and its sensors in steps and rollouts."""

    def contact_forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        dt: ArrayLike,
        f_ext: Wrenches = None,
        *,
        ground: Ground,
        law: ContactLaw | None = None,
        ground_params: Mapping[str, ArrayLike] | None = None,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        actuation: Actuated = None,
        constraints: Constraints | None = None,
        active: ArrayLike | None = None,
        anchors: ArrayLike | None = None,
        out: tuple[np.ndarray, ...] | None = None,
        threads: Threads = None,
    ) -> ContactForwardDynamics:
        """Returns the acceleration a (..., nv), rad/s^2 or m/s^2, of a state on the ground and the
        contact forces (..., contacts, 3), N, without a step.

        With `fl.SoftContacts` they are those of MuJoCo's mj_forward, qacc and the forces of its
        contacts, where dt is its timestep, which bounds time constants of `solref` by 2 dt. With
        `fl.Coulomb`, whose impulses act within a step of dt seconds, they are means over it: a =
        (v' - v) / dt of the velocity v' at its end in the same axes, and forces are impulses / dt,
        large at an impact. Arguments are those of `step`; with `actuation`, tau are controls,
        whose forces are those at q and v. Raises TypeError without a ground.

        Examples:
            >>> tip = fl.CollisionShape("tip", "sphere", (0.1,))
            >>> ball = fl.load("double_pendulum", root="free", lock={"joint1": 0, "joint2": 0})
            >>> ball = ball.with_inertial("base_link", com=[0, 0, 0])
            >>> ball = ball.with_collision_shapes({"base_link": tip})
            >>> at_rest, still = [0.0, 0, 0.1, 0, 0, 0, 1], np.zeros(6)
            >>> fd = ball.contact_forward_dynamics(at_rest, still, still, dt, ground=fl.Ground())
            >>> np.allclose(fd.contact_force[0], [0, 0, 9.81 * ball.mass])
            True
        """
        if ground is None:
            raise TypeError("ground is None: wanted fl.Ground(...)")
        built, more = with_constraints(constraints, active, anchors)
        inputs, of_ground = with_ground(ground, law, ground_params)
        arrays = (q, v, tau, checked_time_steps(dt, q, v, tau), *more, *of_ground)
        others, name = (params, out, threads, f_ext, f_ext_frame), "contact_forward_dynamics"
        options: Any = {"actuation": actuation, "constraints": built, "ground": inputs}
        return self._call(name, arrays, *others, **options)

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
