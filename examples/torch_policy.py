"""A policy for reaching, learned by gradients through the dynamics: a small network gives the
torques of an iiwa14 in closed loop, and the error of the hand goes back through every step.

    pip install 'featherlane[torch]'
    python examples/torch_policy.py [--figure torch_policy.svg]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch

import featherlane as fl
from featherlane.interop.torch import wrap

ROBOT, HAND = "iiwa14", "iiwa_link_7"
DT, STEPS = 0.02, 50  # s
FASTEST, BRAKE = 25.0, 5.0  # rad/s^2, of an action of 1; 1/s
SPREAD = 0.7  # of the joint limits, from which starts and goals are drawn


class Reaching:
    """The task: from random rest to random places of the hand, batched, in float32."""

    def __init__(self, seed: int = 0) -> None:
        self.arm = fl.load(ROBOT)
        self.robot = wrap(self.arm)
        self.rng = np.random.default_rng(seed)
        self.limit = np.array([joint.upper[0] for joint in self.arm.joints])

    def draw(self, count: int) -> tuple[Any, Any]:
        """First angles and goals of so many tasks. Goals are near enough to reach in a second."""
        q = SPREAD * self.limit * self.rng.uniform(-1, 1, (count, 7))
        there = q + self.rng.uniform(-0.6, 0.6, (count, 7))
        goal = self.arm.frame_placement(there, HAND)[:, :3, 3]
        return torch.tensor(q, dtype=torch.float32), torch.tensor(goal, dtype=torch.float32)

    def errors(self, policy: torch.nn.Module, q: Any, goal: Any) -> tuple[Any, Any]:
        """Distances of hand and goal (STEPS, tasks), m, and the mean square of actions."""
        v, errors, effort = torch.zeros_like(q), [], 0.0
        for _ in range(STEPS):
            reach = goal - self.robot.frame_placement(q, frame=HAND)[:, :3, 3]
            J = self.robot.jacobian(q, frame=HAND, reference="world")[:, :3]
            pull = (reach[:, None] @ J)[:, 0]  # the joints' directions towards the goal
            action = policy(torch.cat([torch.sin(q), torch.cos(q), v / 5, reach, 5 * pull], 1))
            tau = self.robot.inverse_dynamics(q, v, FASTEST * action - BRAKE * v)
            q, v = self.robot.step(q, v, tau, DT, integrator="implicit_damping")
            errors.append(torch.linalg.vector_norm(reach, dim=1))
            effort = effort + (action**2).mean() / STEPS
        return torch.stack(errors), effort


def make_policy(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(31, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()]
    last = torch.nn.Linear(64, 7)
    torch.nn.init.zeros_(last.weight)  # begins with no action
    return torch.nn.Sequential(*layers, last, torch.nn.Tanh())


def train(task: Reaching, iterations: int = 250, batch: int = 64) -> tuple[Any, list[float]]:
    """Returns a policy, and the mean distance at the end, m, of each iteration's tasks."""
    policy = make_policy()
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    history = []
    for _ in range(iterations):
        errors, effort = task.errors(policy, *task.draw(batch))
        loss = errors[STEPS // 2 :].mean() + 0.2 * errors.mean() + 0.01 * effort
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        decay.step()
        history.append(float(errors[-1].detach().mean()))
    return policy, history


def draw(history: list[float], errors: Any, path: str) -> None:
    from featherlane.tools.figures import INK, pyplot, save

    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.semilogy(history)
    left.set(xlabel="iteration", ylabel="hand to goal after 1 s, m")
    right.plot(DT * np.arange(STEPS), errors[:, :40], color=INK, linewidth=0.7)
    right.plot(DT * np.arange(STEPS), errors.median(1).values, label="median of new tasks")
    right.set(xlabel="time, s", ylabel="hand to goal, m")
    right.legend()
    save(figure, path, "A policy learns to reach")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--figure", help="draw the learning and new tasks into this file")
    parser.add_argument("--iterations", type=int, default=250, help="of training (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the network is small: more threads would wait for each other
    task = Reaching()
    policy, history = train(task, args.iterations)
    with torch.no_grad():
        errors, _ = task.errors(policy, *task.draw(1000))
    print(f"new tasks: {errors[0].median():.3f} m from the goal at first, ", end="")
    print(f"{errors[-1].median():.3f} m after {STEPS * DT:g} s (medians of 1,000)")
    if args.figure:
        draw(history, errors, args.figure)


if __name__ == "__main__":
    main()
