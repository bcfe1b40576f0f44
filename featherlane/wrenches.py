"""Wrenches at frames, by name, as the dynamics take them: one on each body, at its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from featherlane.function import common_dtype
from featherlane.model import WORLD

if TYPE_CHECKING:
    from featherlane.kinematics import Kinematics

GEOMETRY = ("position", "orientation")  # the parameters that move frames


class Push(NamedTuple):
    """Force (..., 3) and moment (..., 3) at a frame; arm (..., 3) goes there from its body's
    origin. In the body's axes, or all in the world's.
    """

    frame: str
    body: int
    force: np.ndarray
    moment: np.ndarray
    arm: np.ndarray


def _arrays(q: Any, wrenches: Mapping[str, Any]) -> dict[str, np.ndarray]:
    dtype = common_dtype({"q": q} | {f"f_ext[{name!r}]": x for name, x in wrenches.items()})
    arrays = {name: np.asarray(x, dtype) for name, x in wrenches.items()}
    for name, array in arrays.items():
        if not array.ndim or array.shape[-1] != 6:
            raise ValueError(
                f"f_ext[{name!r}] has shape {array.shape}, wanted (..., 6): [force; moment] at the "
                "frame's origin"
            )
    return arrays


def _pushes(
    model: Kinematics, q: Any, wrenches: Mapping[str, Any], axes: str, params: Mapping[str, Any]
) -> Iterator[Push]:
    """On the bodies that move: what pushes the ground does nothing."""
    for name, wrench in _arrays(q, wrenches).items():
        frame, force, moment = model.frame(name), wrench[..., :3], wrench[..., 3:]
        R = np.array(frame.placement.R, wrench.dtype)
        arm = np.array(frame.placement.p, wrench.dtype)
        if frame.body == WORLD:
            continue
        if axes == "body":
            yield Push(name, frame.body, force @ R.T, moment @ R.T, arm)
        elif arm.any():
            turn = model.frame_placement(q, name, params=params)[..., :3, :3]
            yield Push(name, frame.body, force, moment, turn @ (R.T @ arm))
        else:
            yield Push(name, frame.body, force, moment, arm)


def _geometry(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: x for name, x in (params or {}).items() if name in GEOMETRY}


def on_bodies(
    model: Kinematics,
    q: Any,
    wrenches: Mapping[str, Any],
    axes: str,
    params: Mapping[str, Any] | None = None,
) -> np.ndarray:
    """f_ext (..., nbodies, 6) that has the effect of wrenches (..., 6) at the origins of frames, in
    the frames' axes (axes "body") or the world's.
    """
    acting = [
        (push.body, np.concatenate(np.broadcast_arrays(push.force, moment), -1))
        for push in _pushes(model, q, wrenches, axes, _geometry(params))
        for moment in [push.moment + np.cross(push.arm, push.force)]
    ]
    lead = np.broadcast_shapes(*[wrench.shape[:-1] for _, wrench in acting])
    total = np.zeros((*lead, model.nbodies, 6), common_dtype({"q": q, **wrenches}))
    for body, wrench in acting:
        total[..., body, :] += wrench
    return total


def turning_arms(
    model: Kinematics, q: Any, wrenches: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> np.ndarray:
    """(..., nv, nv), a part of dtau/dq for wrenches in the world's axes: their arms turn with the
    bodies, and so what `on_bodies` gives is not constant.

    A turn w_j of the body takes the moment arm x f to (arm + w_j x arm) x f.
    """
    lead = np.asarray(q).shape[:-1]
    total = np.zeros((*lead, model.nv, model.nv), common_dtype({"q": q, **wrenches}))
    geometry = _geometry(params)
    for push in _pushes(model, q, wrenches, "world", geometry):
        J = model.jacobian(q, push.frame, "world", params=geometry)
        w = np.swapaxes(J[..., 3:, :], -1, -2)
        moved = np.cross(np.cross(w, push.arm[..., None, :]), push.force[..., None, :])
        total = total - w @ np.swapaxes(moved, -1, -2)
    return total
