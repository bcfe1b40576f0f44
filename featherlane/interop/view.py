"""A viewer in the browser: `show` draws a configuration, or plays a rollout, with viser.

pip install 'featherlane[view]'. The page has sliders for the joints, or for the time of a rollout.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from featherlane.algorithms.frames import frame_placement
from featherlane.api.model import Model
from featherlane.functions.arguments import is_count
from featherlane.functions.array_like import ArrayLike
from featherlane.interop.shapes import (
    Shape,
    collision_meshes,
    inertia_ellipsoids,
    skeleton,
    visuals,
)
from featherlane.interop.wrapped import required
from featherlane.robot.parts import WORLD, Frame
from featherlane.robot.quaternions import matrix_quaternion

viser = required("viser", "view")

PORTS = 65535
FRAME_RATE = 30.0  # pictures a second while a rollout is played
LONGEST = np.pi  # rad or m: the ends of a slider without a limit


def body_placements(model: Model, q: np.ndarray) -> np.ndarray:
    """Returns the placements (T, nbodies, 4, 4) of all bodies at configurations (T, nq)."""
    result = np.zeros((len(q), model.nbodies, 4, 4))
    columns = list(q.T)
    for n in range(model.nbodies):
        rows = frame_placement(model.tree, columns, model.tree.point(Frame("", n)))
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                result[:, n, i, j] = entry
    return result


class View:
    """A robot in a browser. url: of the page; server: viser's, to which shapes can be added;
    notes: elements of the robot's file that could not be drawn.
    """

    def __init__(
        self,
        model: Model,
        q: np.ndarray,
        dt: float,
        drawn: tuple[list[Shape], list[str]],
        server: Any,
    ) -> None:
        self.model, self.dt, self.server = model, dt, server
        self.q, self._closed = q[0], threading.Event()
        shapes, self.notes = drawn
        self.bodies = [
            server.scene.add_frame(f"/robot/{n}_{name}", show_axes=False)
            for n, name in enumerate(model.body_names)
        ]
        self._add(shapes, "shape")
        colliding, without_mesh = collision_meshes(model)
        self.notes = [*self.notes, *without_mesh]
        self._switched = {
            "inertia": self._add(inertia_ellipsoids(model), "inertia"),
            "collision": self._add(colliding, "collision"),
        }
        self.update(self.q)
        self._surround(shapes)
        self._controls(q)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server.get_port()}"

    def __repr__(self) -> str:
        return f"<View of {self.model.name!r} at {self.url}>"

    def update(self, q: ArrayLike) -> None:
        """Draws a configuration (nq,)."""
        self.q = _configurations(self.model, q)[0]
        self._move(body_placements(self.model, self.q[None])[0])

    def wait(self) -> None:
        """Keeps the page alive until Ctrl-C."""
        try:
            self._closed.wait()
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Ends the page."""
        self._closed.set()
        self.server.stop()

    # The scene

    def _add(self, shapes: Sequence[Shape], what: str) -> list[Any]:
        handles = []
        for n, (body, mesh) in enumerate(shapes):
            parent = "/ground" if body == WORLD else self.bodies[body].name
            handles.append(self.server.scene.add_mesh_trimesh(f"{parent}/{what}{n}", mesh))
        return handles

    def _move(self, placements: np.ndarray) -> None:
        turns = matrix_quaternion(placements[:, :3, :3])[:, [3, 0, 1, 2]]
        with self.server.atomic():
            for body, T, turn in zip(self.bodies, placements, turns, strict=True):
                body.position, body.wxyz = T[:3, 3], turn

    def _surround(self, shapes: Sequence[Shape]) -> None:
        """Adds the ground below the robot, and looks at it from in front."""
        T = body_placements(self.model, self.q[None])[0]
        corners = [
            corner if body == WORLD else corner @ T[body, :3, :3].T + T[body, :3, 3]
            for body, mesh in shapes
            for corner in [np.asarray(mesh.bounding_box.vertices)]
        ]
        points = np.concatenate(corners) if corners else np.zeros((1, 3))
        low, high = points.min(0), points.max(0)
        size, middle = max(float(np.linalg.norm(high - low)), 0.1), (low + high) / 2
        cell = 10.0 ** np.floor(np.log10(size / 2))
        self.server.scene.add_grid(
            "/grid",
            cell_size=cell,
            section_size=10 * cell,
            cell_color=(225, 225, 225),
            section_color=(190, 190, 190),
            position=(0.0, 0.0, min(low[2], 0.0)),
            infinite_grid=True,
            fade_distance=8 * size,
        )
        camera = self.server.initial_camera
        camera.position, camera.look_at = middle + size * np.array([0.62, 0.43, 0.25]), middle

    # The panel

    def _controls(self, q: np.ndarray) -> None:
        gui = self.server.gui
        if self.notes:
            gui.add_markdown("Not drawn: " + "; ".join(self.notes))
        for title, handles in self._switched.items():
            if handles:
                switch = gui.add_checkbox(title, False)
                switch.on_update(partial(_show, switch, handles))
                _show(switch, handles)
        if len(q) > 1:
            self._player(q)
        else:
            self._sliders()

    def _sliders(self) -> None:
        """A slider for each coordinate of q that is no part of a quaternion."""
        model, gui = self.model, self.server.gui
        lower, upper = model.position_limits
        for n in model.independent:
            kind, first = model.types[n], model.first_q[n]
            parts = {at + k for at in kind.quaternions for k in range(4)}
            for k in sorted({*range(kind.nq)} - parts):
                i = first + k
                low = lower[i] if np.isfinite(lower[i]) else min(-LONGEST, self.q[i])
                high = upper[i] if np.isfinite(upper[i]) else max(LONGEST, self.q[i])
                name = model.joints[n].name + (f" {k}" if kind.nq > 1 else "")
                start = float(np.clip(self.q[i], low, high))
                slider = gui.add_slider(name, low, high, (high - low) / 1000, start)
                slider.on_update(partial(self._slid, i, slider))

    def _slid(self, i: int, slider: Any, _: Any) -> None:
        q = self.q.copy()
        q[i] = slider.value
        self.update(q)

    def _player(self, q: np.ndarray) -> None:
        """A slider for the time, and a thread that moves it."""
        gui, placements = self.server.gui, body_placements(self.model, q)
        end = (len(q) - 1) * self.dt
        slider = gui.add_slider("time, s", 0.0, end, self.dt, 0.0)
        speed = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
        play = gui.add_checkbox("play", True)

        def draw(_: Any = None) -> None:
            n = min(round(slider.value / self.dt), len(q) - 1)
            self.q = q[n]
            self._move(placements[n])

        def run() -> None:
            while not self._closed.wait(1 / FRAME_RATE):
                if play.value:
                    now = slider.value + speed.value / FRAME_RATE
                    slider.value = 0.0 if now > end else now

        slider.on_update(draw)
        threading.Thread(target=run, daemon=True, name="featherlane view").start()


def _show(switch: Any, handles: Sequence[Any], _: Any = None) -> None:
    """Shows what a checkbox switches, or hides it."""
    for handle in handles:
        handle.visible = switch.value


def _configurations(model: Model, q: Any) -> np.ndarray:
    """Returns configurations as rows, checked."""
    if hasattr(q, "q"):  # a rollout
        q = q.q
    rows = np.asarray(q, float)
    if rows.ndim not in (1, 2) or not rows.size or rows.shape[-1] != model.nq:
        wanted = f"wanted ({model.nq},), or (T, {model.nq}) of one rollout"
        raise ValueError(f"q has shape {rows.shape}, {wanted}")
    if not np.isfinite(rows).all():
        raise ValueError("q has a NaN or an infinity: wanted finite numbers")
    return np.atleast_2d(rows)


def _check_address(host: Any, port: Any) -> None:
    """Raises ValueError for what a server cannot have: viser's would wait for ever."""
    if not is_count(port) or port > PORTS:
        raise ValueError(f"port is {port!r:.60}: wanted a whole number from 1 to {PORTS}")
    try:
        socket.getaddrinfo(host, None)
    except (OSError, TypeError, UnicodeError) as error:
        wanted = "wanted a name or an address of this machine"
        raise ValueError(f"host is {host!r:.60}: {wanted} ({error})") from None


def _drawn(model: Model, source: Any, **expansion: Any) -> tuple[list[Shape], list[str]]:
    """Returns the visuals of the robot's file, or a skeleton if there are none, and notes."""
    notes: list[str] = []
    if source is None:
        loaded = model.source.removesuffix(" (expanded)")  # of xacro
        source = loaded if os.path.isfile(loaded) else None
    if source is not None:
        shapes, notes = visuals(model, source, **expansion)
        if shapes:
            return shapes, notes
    return skeleton(model), notes


def show(
    model: Model,
    q: Any = None,
    *,
    dt: float = 0.02,
    source: str | os.PathLike[str] | None = None,
    xacro_args: Mapping[str, Any] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
    host: str = "localhost",
    port: int = 8080,
) -> View:
    """Draws a robot on a page that this process serves, at the URL of the result, until the process
    ends.

    Raises ImportError without the extra `view`, ValueError for a q of another shape or with NaN,
    and for an invalid address, ModelError for a file that cannot be read.

    Arguments:
        model: the robot
        q: (nq,), rad or m; or (T, nq), or the result of `model.rollout` for one state, which are
            played; None: the neutral one, moved into the limits
        dt: s, from one configuration to the next
        source: the URDF or MJCF file whose visuals are drawn; without visuals, bones are drawn from
            joint to joint. None: the file from which the model was loaded
        xacro_args: those with which the model was loaded; None: defaults of the file
        packages: those with which the model was loaded
        host: the address to serve; "localhost" is this machine only
        port: the first port to try

    Examples:
        >>> from featherlane.interop import view
        >>> page = view.show(arm, q)
        >>> page.close()
    """
    if not isinstance(model, Model):
        raise TypeError(f"model is {model!r:.60}: wanted a Model, as fl.load gives it")
    rows = _configurations(model, model.clip(model.neutral()) if q is None else q)
    if not isinstance(dt, Real) or isinstance(dt, bool) or not 0 < dt < np.inf:
        raise ValueError(f"dt is {dt!r:.60}: wanted positive seconds")
    _check_address(host, port)
    drawn = _drawn(model, source, xacro_args=xacro_args, packages=packages)
    server = viser.ViserServer(host=host, port=int(port), label=model.name, verbose=False)
    try:
        return View(model, rows, float(dt), drawn, server)
    except BaseException:
        server.stop()
        raise
