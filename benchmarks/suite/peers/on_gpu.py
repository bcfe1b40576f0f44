"""Peers on a GPU: grid-rbd, mujoco-warp and loops of PyTorch on arrays that stay there, and MJX as
on the CPU.

For `benchmarks/gpu.py`; none but the loops of PyTorch has run where there was no GPU.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

from featherlane.robot.model import Robot

from . import reduced
from .base import FLOAT32, Arrays, Case, Peer, Prepared, Unsupported, lacks
from .with_mjx import MJX
from .with_mujoco import FIELDS
from .with_mujoco import Robot as InMuJoCo
from .with_torch import TorchLoop

GRID = {
    "inverse_dynamics": "inverse_dynamics",
    "forward_dynamics": "forward_dynamics",
    "mass_matrix": "crba",
    "mass_matrix_inverse": "minv",
    "inverse_dynamics_derivatives": "inverse_dynamics_gradient",
    "forward_dynamics_derivatives": "forward_dynamics_gradient",
}
LARGEST = 65_536  # states that grid-rbd's kernels are made for


def grid_kernels(model: Robot) -> Any:
    """grid-rbd's kernels of a robot, which nvcc compiles at the first time: some minutes."""
    import grid_rbd

    return grid_rbd.load_robot(
        urdf_string=reduced.urdf(model),
        backend="torch",
        floating_base=model.root == "free",
        max_batch_size=LARGEST,
        algorithm_list=sorted(GRID.values()),
        enable_mujoco_kernels=False,
    )


class Grid(Peer):
    """grid-rbd, on tensors of torch."""

    name, precisions, heavy = "grid-rbd", (FLOAT32,), True

    def missing(self) -> str | None:
        return lacks(("grid_rbd", "grid-rbd"), ("torch", "torch"))

    def version(self) -> str:
        return metadata.version("grid-rbd")

    def prepare(self, case: Case) -> Prepared | Unsupported:
        import torch

        if case.name not in GRID:
            return Unsupported("not among its functions")
        if case.batch > LARGEST:
            return Unsupported(f"its kernels are made for {LARGEST:,} states")
        call = getattr(grid_kernels(case.model), GRID[case.name])
        given = [torch.tensor(x, device="cuda") for x in case.given()]
        last: list[Any] = [None]

        def passes(count: int) -> None:
            for _ in range(count):
                last[0] = call(*given)
            torch.cuda.synchronize()

        def answers(rows: Any) -> Arrays:
            """Derivatives come side by side, by q and then by v."""
            found = last[0][rows].cpu().numpy()
            n = case.model.nv
            wide = found.ndim == 3 and found.shape[2] > n
            return (found[..., :n], found[..., n:]) if wide else (found,)

        return Prepared(passes, answers, settings="torch, resident", release=last.clear)


class Warp(Peer):
    """mujoco-warp, replayed as a CUDA graph."""

    name, precisions, heavy = "mujoco-warp", (FLOAT32,), True

    def missing(self) -> str | None:
        return lacks(("mujoco_warp", "mujoco-warp"), ("warp", "warp-lang"))

    def version(self) -> str:
        return metadata.version("mujoco-warp")

    def prepare(self, case: Case) -> Prepared | Unsupported:
        import mujoco_warp
        import warp

        calls = {
            "inverse_dynamics": ("qacc", mujoco_warp.inverse, "qfrc_inverse"),
            "forward_dynamics": ("qfrc_applied", mujoco_warp.forward, "qacc"),
        }
        if case.name not in calls:
            return Unsupported("no function of its own for it")
        field, call, result = calls[case.name]
        robot = InMuJoCo.read(case)
        q, v, u = robot.states(case)
        model = mujoco_warp.put_model(robot.model)
        data = mujoco_warp.make_data(robot.model, nworld=case.batch)
        for name, x in (("qpos", q), ("qvel", v), (field, u)):
            getattr(data, name).assign(np.ascontiguousarray(x, np.float32))
        call(model, data)  # compiles
        with warp.ScopedCapture() as capture:
            call(model, data)

        def passes(count: int) -> None:
            for _ in range(count):
                warp.capture_launch(capture.graph)
            warp.synchronize()

        def answers(rows: Any) -> Arrays:
            found = getattr(data, result).numpy().astype(float)
            return robot.back(case.name, q[rows], v[rows], found[rows])

        return Prepared(passes, answers, settings=f"CUDA graph, field {FIELDS[case.name][1]}")


GPU_PEERS: dict[str, Peer] = {peer.name: peer for peer in (Grid(), Warp(), MJX(), TorchLoop())}
