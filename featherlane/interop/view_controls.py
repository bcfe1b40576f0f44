"""The controls of a viewer's page: sliders of joints, the gizmo of a free root, and a player."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from featherlane.api.model import Model
from featherlane.interop.view_robots import wxyz
from featherlane.robot.parts import WORLD
from featherlane.robot.quaternions import matrix_quaternion
from featherlane.robot.rotations import xyzw_rotation

FRAME_RATE = 30.0  # pictures a second while a rollout is played
LONGEST = {"deg": np.pi, "m": 1.0}  # rad and m: the ends of sliders without limits
STEPS = {"deg": 0.1, "m": 0.001}


class CoordinateSlider(NamedTuple):
    """A coordinate of q that has a slider, in the unit that the slider shows."""

    i: int
    title: str
    unit: str
    low: float
    high: float

    def shown(self, q: np.ndarray) -> float:
        """The value of the slider at a configuration: the end of the range if it is outside."""
        value = np.rad2deg(q[self.i]) if self.unit == "deg" else q[self.i]
        return float(np.clip(value, self.low, self.high))

    def ends(self) -> tuple[float, float]:
        """The ends of the slider. Zero is its middle if the limits allow zero."""
        if self.low == self.high:
            return self.low - STEPS[self.unit], self.high + STEPS[self.unit]
        if self.low <= 0 <= self.high:
            far = max(-self.low, self.high)
            return -far, far
        return self.low, self.high


def coordinates(model: Model, q: np.ndarray) -> Iterator[CoordinateSlider]:
    """Yields the coordinates that are no part of a quaternion."""
    lower, upper = model.position_limits
    for n in model.independent:
        kind, first = model.types[n], model.first_q[n]
        parts = {at + k for at in kind.quaternions for k in range(4)}
        for k in sorted({*range(kind.nq)} - parts):
            i, unit = first + k, "deg" if k in kind.angles else "m"
            low = lower[i] if np.isfinite(lower[i]) else min(-LONGEST[unit], q[i])
            high = upper[i] if np.isfinite(upper[i]) else max(LONGEST[unit], q[i])
            if unit == "deg":
                low, high = np.rad2deg(low), np.rad2deg(high)
            part = "" if kind.nq == 1 else " " + ("xyz"[k] if unit == "m" and k < 3 else str(k))
            title = f"{model.joints[n].name}{part}, {unit}"
            yield CoordinateSlider(i, title, unit, float(low), float(high))


class Sliders:
    """Sliders for joints. `changed` is called with a configuration when one is moved by hand."""

    def __init__(
        self, gui: Any, model: Model, q: np.ndarray, changed: Callable[[np.ndarray], None]
    ) -> None:
        self._q, self._changed = q, changed
        self._sliders = [(x, _slider(gui, x, q)) for x in coordinates(model, q)]
        for x, slider in self._sliders:
            slider.on_update(partial(self._moved, x, slider))

    def follow(self, q: np.ndarray) -> None:
        """Moves the sliders to a configuration."""
        self._q = q
        for x, slider in self._sliders:
            slider.value = x.shown(q)

    def _moved(self, x: CoordinateSlider, slider: Any, _: Any) -> None:
        within = float(np.clip(slider.value, x.low, x.high))
        if within != slider.value:
            slider.value = within
        if within == x.shown(self._q):
            return  # it was moved by `follow`
        q = self._q.copy()
        q[x.i] = np.deg2rad(within) if x.unit == "deg" else within
        self._changed(q)


def _slider(gui: Any, x: CoordinateSlider, q: np.ndarray) -> Any:
    low, high = x.ends()
    places = sorted({x.low, x.high} | ({0.0} if low < 0 < high else set()))
    marks = tuple((place, f"{place:.4g}") for place in places)
    return gui.add_slider(x.title, low, high, STEPS[x.unit], x.shown(q), marks=marks)


class RootGizmo:
    """Handles in the scene that move and turn the root of a free robot."""

    def __init__(
        self,
        scene: Any,
        model: Model,
        n: int,
        place: np.ndarray,
        size: float,
        moved: Callable[[Any], None],
    ) -> None:
        self._at = slice(model.first_q[n], model.first_q[n] + 7)
        R, p = model.joints[n].placement
        self._R, self._p = np.array(R), np.array(p) + place
        self.node = scene.add_transform_controls(f"/root_{model.joints[n].name}", scale=size)
        self.node.on_update(moved)
        self._body = n

    def follow(self, placements: np.ndarray) -> None:
        """Moves the handles to the root, from placements (nbodies, 4, 4)."""
        T = placements[self._body]
        self.node.position, self.node.wxyz = T[:3, 3], wxyz(T)

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Returns q with the root where the handles are."""
        w, x, y, z = self.node.wxyz
        turn = xyzw_rotation(np.array([x, y, z, w]))
        q = q.copy()
        position = self._R.T @ (np.asarray(self.node.position) - self._p)
        q[self._at] = [*position, *matrix_quaternion(self._R.T @ turn)]
        return q


def free_roots(model: Model) -> list[int]:
    """The joints by which a robot floats."""
    kinds = enumerate(zip(model.types, model.joints, strict=True))
    return [n for n, (kind, joint) in kinds if kind.name == "free" and joint.parent == WORLD]


class Player:
    """A slider for the time of a rollout, and a thread that moves it."""

    def __init__(
        self, gui: Any, rows: int, dt: float, draw: Callable[[int], None], closed: threading.Event
    ) -> None:
        self._rows, self._dt, self._draw, self._closed = rows, dt, draw, closed
        self.time = gui.add_slider("time, s", 0.0, (rows - 1) * dt, dt, 0.0)
        self._speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
        self._play = gui.add_checkbox("play", True)
        self.time.on_update(self.show)
        threading.Thread(target=self._run, daemon=True, name="featherlane view").start()

    def show(self, _: Any = None) -> None:
        """Draws the row of the time that the slider shows."""
        self._draw(min(round(self.time.value / self._dt), self._rows - 1))

    def _run(self) -> None:
        while not self._closed.wait(1 / FRAME_RATE):
            if self._play.value:
                now = self.time.value + self._speed.value / FRAME_RATE
                self.time.value = 0.0 if now > (self._rows - 1) * self._dt else now
