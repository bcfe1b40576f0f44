"""Newton and Euler's equations in PyTorch: a loop over links, whose tensors have all states.

So one writes dynamics for a GPU without a library of them. It is no library's algorithm, but the
usual first attempt; on a GPU its launches are replayed as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from featherlane.robot.model import Robot
from featherlane.robot.parts import WORLD

from .base import FLOAT32, FLOAT64, Arrays, Case, Peer, Prepared, Unsupported, lacks


class _Chain:
    """A robot of revolute joints on a fixed root, with its constants as tensors."""

    def __init__(self, model: Robot, dtype: str, device: str) -> None:
        import torch

        def tensor(x: Any) -> Any:
            return torch.tensor(np.array(x), dtype=getattr(torch, dtype), device=device)

        self.torch, self.n = torch, model.nbodies
        self.parent = [joint.parent for joint in model.joints]
        self.R = [tensor(joint.placement.R) for joint in model.joints]
        self.p = [tensor(joint.placement.p) for joint in model.joints]
        self.axis = [tensor(joint.axis) for joint in model.joints]
        self.mass = [body.mass for body in model.bodies]
        self.com = [tensor(body.com) for body in model.bodies]
        self.inertia = [tensor(body.inertia) for body in model.bodies]
        self.gravity = tensor(model.gravity)
        self.skew = [tensor(np.cross(np.eye(3), x.axis)) for x in model.joints]
        self.one = tensor(np.eye(3))

    def _turns(self, q: Any) -> list[Any]:
        """The rotation from each link to its parent, by Rodrigues' formula."""
        sin, cos = q.sin()[..., None, None], q.cos()[..., None, None]
        turns = []
        for i in range(self.n):
            K = self.skew[i]
            turns.append(self.R[i] @ (self.one + sin[:, i] * K + (1 - cos[:, i]) * (K @ K)))
        return turns

    def inverse_dynamics(self, q: Any, v: Any, a: Any, gravity: float = 1.0) -> Any:
        cross = lambda x, y: self.torch.linalg.cross(*self.torch.broadcast_tensors(x, y))
        turned = lambda R, x: (R.transpose(-1, -2) @ x[..., None])[..., 0]
        zero = self.torch.zeros_like(q[:, :3])
        R, w, dw, acceleration, force, moment = self._turns(q), [], [], [], [], []
        for i, parent in enumerate(self.parent):
            at_root = parent == WORLD
            w0, dw0 = (zero, zero) if at_root else (w[parent], dw[parent])
            a0 = zero - gravity * self.gravity if at_root else acceleration[parent]
            a0 = a0 + cross(dw0, self.p[i]) + cross(w0, cross(w0, self.p[i]))
            rate = self.axis[i] * v[:, i, None]
            w.append(turned(R[i], w0) + rate)
            dw.append(turned(R[i], dw0) + self.axis[i] * a[:, i, None] + cross(w[i], rate))
            acceleration.append(turned(R[i], a0))
            c, I = self.com[i], self.inertia[i]
            at_com = acceleration[i] + cross(dw[i], c) + cross(w[i], cross(w[i], c))
            force.append(self.mass[i] * at_com)
            moment.append(dw[i] @ I.T + cross(w[i], w[i] @ I.T) + cross(c, force[i]))
        tau = [zero[:, 0]] * self.n
        for i in reversed(range(self.n)):
            tau[i] = moment[i] @ self.axis[i]
            if (parent := self.parent[i]) != WORLD:
                f, m = ((R[i] @ x[..., None])[..., 0] for x in (force[i], moment[i]))
                force[parent] = force[parent] + f
                moment[parent] = moment[parent] + m + cross(self.p[i], f)
        return self.torch.stack(tau, -1)

    def mass_matrix(self, q: Any) -> Any:
        """Its columns are the torques of unit accelerations, all in one batch."""
        n, batch = self.n, len(q)
        each = q.repeat_interleave(n, 0)
        unit = self.torch.eye(n, dtype=q.dtype, device=q.device).repeat(batch, 1)
        columns = self.inverse_dynamics(each, self.torch.zeros_like(each), unit, gravity=0.0)
        return columns.reshape(batch, n, n)

    def forward_dynamics(self, q: Any, v: Any, tau: Any) -> Any:
        bias = self.inverse_dynamics(q, v, self.torch.zeros_like(v))
        factor, _ = self.torch.linalg.cholesky_ex(self.mass_matrix(q))
        return self.torch.cholesky_solve((tau - bias)[..., None], factor)[..., 0]


class TorchLoop(Peer):
    name, precisions, heavy = "torch-loop", (FLOAT64, FLOAT32), True

    def missing(self) -> str | None:
        return lacks(("torch", "torch"))

    def version(self) -> str:
        return metadata.version("torch")

    def prepare(self, case: Case) -> Prepared | Unsupported:
        import torch

        if (why := _refused(case)) is not None:
            return why
        device = "cuda" if torch.cuda.is_available() else "cpu"
        call = getattr(_Chain(case.model, case.dtype, device), case.name)
        given = [torch.tensor(x, device=device) for x in case.given()]
        run, results = (_replayed if device == "cuda" else _plain)(call, given)

        def passes(count: int) -> None:
            for _ in range(count):
                run()
            if device == "cuda":
                torch.cuda.synchronize()

        def answers(rows: Any) -> Arrays:
            return (results[0][rows].cpu().numpy(),)

        told = "CUDA graph" if device == "cuda" else "CPU"
        return Prepared(passes, answers, settings=f"loop over links, {told}", release=results.clear)


def _refused(case: Case) -> Unsupported | None:
    if case.name not in ("inverse_dynamics", "forward_dynamics", "mass_matrix"):
        return Unsupported("not among its functions")
    kinds = {kind.name for kind in case.model.types}
    if case.model.root != "fixed" or kinds != {"revolute"} or case.model.armature.any():
        return Unsupported("it has revolute joints without armature on a fixed root only")
    return None


def _plain(call: Callable[..., Any], given: Sequence[Any]) -> tuple[Callable[[], None], list[Any]]:
    """What computes the results anew, and where they are."""
    results = [call(*given)]

    def run() -> None:
        results[0] = call(*given)

    return run, results


def _replayed(
    call: Callable[..., Any], given: Sequence[Any]
) -> tuple[Callable[[], None], list[Any]]:
    """The same by a CUDA graph, after a call that loads what it needs."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(*given)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = [call(*given)]
    return graph.replay, results
