"""Predictive control of a quadruped that stands while its arm moves: torques and forces of the feet
are planned by one Gauss-Newton step of multiple shooting at a time. docs/mpc.md has a trot.

    python examples/mpc_quadruped_arm.py [--figure mpc_quadruped_arm.svg]
"""

import argparse
from importlib.resources import files
from time import perf_counter

import numpy as np
from hopping_contact import ground

import featherlane as fl
from featherlane.tools.figures import pyplot, save

LEGS = ("front_left", "front_right", "rear_left", "rear_right")
FEET, HAND = [f"{leg}_foot" for leg in LEGS], "arm_link_wr1"
FOOT = """<link name="{0}_foot"/><joint name="{0}_end" type="fixed"><origin xyz="0 0 -0.3365"/>
<parent link="{0}_lower_leg"/><child link="{0}_foot"/></joint>"""
POSTURE = {"hip_y": 0.75, "knee": -1.4, "arm_sh1": -1.9, "arm_el0": 1.9, "arm_wr0": 0.5}  # rad
DT, KNOTS, PLANT = 0.02, 25, 80  # s, half a second ahead; steps of the plant in one of control
RADIUS, TURN = 0.12, 2.0  # m, s: the circle that the hand is to draw
ROOT, JOINTS, SPEEDS, STILL, REACH, CONTROLS = 40.0, 2.0, 0.3, 20.0, 60.0, 0.03  # weights


def load() -> fl.Model:
    """The bundled quadruped with an arm, with points as feet, on a free root."""
    text = (files("featherlane.robot.bundled") / "quadruped_arm.urdf").read_text()
    feet = "".join(map(FOOT.format, LEGS))
    return fl.load(text.replace("</robot>", f"{feet}</robot>"), root="free")


class Controller:
    """Plans over the horizon from the last plan, which stays where it is as time goes on."""

    def __init__(self, robot: fl.Model) -> None:
        self.robot, joints = robot, [joint.name for joint in robot.joints[1:]]
        q = robot.neutral()
        for joint, first in zip(robot.joints, robot.first_q, strict=True):
            q[first] = next((x for end, x in POSTURE.items() if joint.name.endswith(end)), q[first])
        q[2] = -min(robot.frame_placement(q, foot)[2, 3] for foot in FEET)
        self.stance, self.center = q, robot.frame_placement(q, HAND)[:3, 3]
        J = np.concatenate([robot.jacobian(q, foot, reference="world")[:3] for foot in FEET])
        held = robot.gravity_torque(q)
        f = np.linalg.pinv(J.T[:6]) @ held[:6]
        self.rest = np.concatenate([(held - J.T @ f)[6:], f])  # torques and forces of standing
        self.q, self.u = np.tile(q, (KNOTS + 1, 1)), np.tile(self.rest, (KNOTS, 1))
        self.v = np.zeros((KNOTS + 1, robot.nv))
        shapes = {"q": robot.nq, "v": robot.nv, "goal": 3, "dq": robot.nv, "dv": robot.nv}
        by = fl.jacobian(self._residuals, shapes, wrt=("dq", "dv"), values=True)
        self.residuals, self.motors = fl.compile(by), robot.actuation(joints, clip=False)

    def _residuals(self, q, v, goal, dq, dv):
        """Of a knot, to be traced; dq and dv are moves in the tangent space."""
        robot, q, v = self.robot, self.robot.integrate(q, dq), v + dv
        away = robot.difference(self.stance, q)
        slide = [robot.frame_velocity(q, v, foot, reference="world")[:3] for foot in FEET]
        reach = robot.frame_placement(q, HAND)[:3, 3] - goal
        parts = ROOT * away[:6], JOINTS * away[6:], SPEEDS * v, REACH * reach
        return np.concatenate([*parts, STILL * np.concatenate(slide)])

    def goal(self, t):
        """Where the hand is to be, (..., 3)."""
        angle, grown = 2 * np.pi * t / TURN, RADIUS * np.minimum(t / 0.5, 1)
        return self.center + np.stack([0 * t, grown * np.sin(angle), grown * np.cos(angle)], -1)

    def plan(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Improves the plan from a state, and returns the feedback of torques, by [dq; dv]."""
        robot, nv, n = self.robot, self.robot.nv, self.robot.nv - 6
        for x in (self.q, self.v, self.u):
            x[:-1] = x[1:]  # a control step has passed
        f = np.pad(self.u[:, n:].reshape(KNOTS, 4, 3), ((0, 0), (0, 0), (0, 3)))
        x = self.q[:-1], self.v[:-1], self.u[:, :n], DT, {FEET[i]: f[:, i] for i in range(4)}
        options = {"actuation": self.motors, "by_wrenches": True}
        end = robot.linearize_step(*x, f_ext_frame="world", **options)
        A, B = end.A, np.delete(end.B, [n + 6 * i + k for i in range(4) for k in (3, 4, 5)], -1)
        gap = np.hstack([robot.difference(self.q[1:], end.q), end.v - self.v[1:]])
        goals = self.goal(t + DT * np.arange(KNOTS + 1))
        r = self.residuals(self.q, self.v, goals, np.zeros(nv), np.zeros(nv))
        J = np.concatenate([r.dout_ddq, r.dout_ddv], -1)
        R = CONTROLS**2 * np.eye(n + 12)
        P, p, law = J[-1].T @ J[-1], J[-1].T @ r.out[-1], []
        for k in reversed(range(KNOTS)):  # Riccati's recursion, with gaps
            p = p + P @ gap[k]
            PB, g = P @ B[k], B[k].T @ p + R @ (self.u[k] - self.rest)
            inverse = np.linalg.inv(R + B[k].T @ PB)
            K, step = inverse @ PB.T @ A[k], inverse @ g
            P = J[k].T @ J[k] + A[k].T @ P @ A[k] - A[k].T @ PB @ K
            P, p = (P + P.T) / 2, J[k].T @ r.out[k] + A[k].T @ (p - PB @ step)
            law.append((K, step))
        moves = [np.concatenate([robot.difference(self.q[0], q), v - self.v[0]])]
        for k, (K, step) in enumerate(reversed(law)):
            self.u[k] += (du := -step - K @ moves[-1])
            moves.append(A[k] @ moves[-1] + B[k] @ du + gap[k])
        dq, dv = np.split(np.array(moves), 2, axis=1)
        self.q, self.v = robot.integrate(self.q, dq), self.v + dv
        return -law[-1][0][:n]


def make_plant(robot: fl.Model):
    """A step of the robot on the ground, compiled."""

    def step(q, v, tau):
        wrenches = {}
        for foot in FEET:
            speed = robot.frame_velocity(q, v, foot, reference="world")[:3]
            force, _ = ground(robot.frame_placement(q, foot)[:3, 3], speed)
            wrenches[foot] = np.concatenate([force, np.zeros(3)])
        tau = np.concatenate([np.zeros(6), tau])
        return robot.step(q, v, tau, DT / PLANT, wrenches, f_ext_frame="world")

    return fl.compile(step, {"q": robot.nq, "v": robot.nv, "tau": robot.nv - 6})


def control(robot: fl.Model, seconds: float = 4.0) -> tuple[np.ndarray, float]:
    """Places of hand, goal and root (steps, 3, 3), m, and the median time of a plan, s."""
    controller, step = Controller(robot), make_plant(robot)
    q, v, rows, times = controller.stance.copy(), np.zeros(robot.nv), [], []
    for n in range(round(seconds / DT)):
        before, law = perf_counter(), controller.plan(n * DT, q, v)
        times.append(perf_counter() - before)
        (q0, q1), (v0, v1) = controller.q[:2], controller.v[:2]
        way = np.concatenate([robot.difference(q0, q1), v1 - v0])  # of the plan, in this time
        for k in range(PLANT):
            dx = np.concatenate([robot.difference(q0, q), v - v0]) - k / PLANT * way
            q, v = step(q, v, np.clip(controller.u[0, : robot.nv - 6] + law @ dx, -300, 300))
        rows.append((robot.frame_placement(q, HAND)[:3, 3], controller.goal((n + 1) * DT), q[:3]))
    return np.array(rows), float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the hand's way into this file")
    args, (rows, period) = parser.parse_args(), control(load())
    hand, wanted, root = rows[len(rows) // 4 :].swapaxes(0, 1)
    off = np.sqrt(np.mean(np.sum((hand - wanted) ** 2, 1)))
    print(f"hand off by {1000 * off:.0f} mm (root mean square), ", end="")
    print(f"root moves by {1000 * np.ptp(root, axis=0).max():.0f} mm")
    print(f"a plan takes {1000 * period:.1f} ms, {1000 * DT:.0f} ms are there")
    if args.figure:
        plt = pyplot()
        plt.plot(*rows[:, 1, 1:].T, *rows[:, 0, 1:].T)
        plt.gca().set(xlabel="y, m", ylabel="z, m", aspect="equal", title="goal (blue) and hand")
        save(plt.gcf(), args.figure, "The goal and the hand of a quadruped that walks on the spot")


if __name__ == "__main__":
    main()
