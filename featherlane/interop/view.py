"""A viewer in the browser: `show` draws a configuration, or plays rollouts, with viser.

pip install 'featherlane[view]'. The page has sliders for the joints, or for the time of a rollout.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.api.model import Model
from featherlane.functions.array_like import ArrayLike
from featherlane.interop.shapes import (
    Shape,
    collision_meshes,
    drawn_shapes,
    inertia_ellipsoids,
)
from featherlane.interop.view_arguments import (
    check_address,
    checked_forces,
    checked_places,
    checked_rollouts,
    finite,
    positive,
)
from featherlane.interop.view_controls import FRAME_RATE, Player, RootGizmo, Sliders, free_roots
from featherlane.interop.view_marks import (
    Mark,
    force_arrows,
    frame_axes,
    targets,
    trajectory_line,
)
from featherlane.interop.view_robots import ManyRobots, OneRobot, body_placements, bounds, grid
from featherlane.interop.wrapped import required

viser = required("viser", "view")

SPACING = 1.2  # of robots on a grid, of their size
FROM_AFAR, FROM_ABOVE = (0.74, 0.51, 0.3), (0.46, 0.31, 0.31)  # of one robot and of many, in sizes


class View:
    """Robots in a browser, as `show` returns them.

    url: the address of the page. server: viser's, to which other shapes can be added. bodies: the
    nodes of one robot's bodies. places: (robots, 3), m, what is added to where q puts each robot.
    size: the diagonal of the box around the first robot, m. notes: elements of the robot's file
    that could not be drawn. Frames, targets, forces and trajectories are drawn by one call each.
    These calls return viser's nodes, whose `visible` can be set; the same call again replaces them.
    """

    def __init__(
        self,
        model: Model,
        rollouts: np.ndarray,
        dt: float,
        drawn: tuple[list[Shape], list[str]],
        server: Any,
        places: np.ndarray | None = None,
        many: bool = False,  # of q (robots, T, nq)
    ) -> None:
        self.model, self.dt, self.server = model, dt, server
        self._rollouts, self._closed, self._lock = rollouts, threading.Event(), threading.RLock()
        shapes, self.notes = drawn
        first = body_placements(model, rollouts[:1, 0])
        low, high = bounds(shapes, first)
        self.size = max(float(np.linalg.norm(high - low)), 0.1)
        spacing = SPACING * max(float((high - low).max()), 0.1)
        self.places = grid(len(rollouts), spacing) if places is None else places
        self._many = many
        robots = (
            ManyRobots(server, self.places) if many else OneRobot(server, model, self.places[0])
        )
        self._robots, self.bodies = robots, robots.bodies
        self._marks: dict[str, Mark] = {}
        self._robots.add(shapes, "shape")
        colliding, without_mesh = collision_meshes(model)
        self.notes = [*self.notes, *without_mesh]
        self._switched = {
            "inertia": self._robots.add(inertia_ellipsoids(model), "inertia"),
            "collision": self._robots.add(colliding, "collision"),
        }
        self._sliders: Sliders | None = None
        self._gizmos: list[RootGizmo] = []
        self._player: Player | None = None
        self._row = 0
        self._draw(rollouts[:, 0], 0)
        self._surround(shapes)
        self._controls()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server.get_port()}"

    @property
    def q(self) -> np.ndarray:
        """The configuration that is drawn: (nq,), or (robots, nq)."""
        return self._q if self._many else self._q[0]

    def __repr__(self) -> str:
        return f"<View of {self.model.name!r} at {self.url}>"

    def update(self, q: ArrayLike) -> None:
        """Draws a configuration (nq,), or (robots, nq) on a page of many. Sliders follow."""
        wanted = (len(self.places), self.model.nq) if self._many else (self.model.nq,)
        array = finite("q", q, str(wanted))
        if array.shape != wanted:
            raise ValueError(f"q has shape {array.shape}, wanted {wanted}")
        self._draw(array.reshape(-1, self.model.nq), self._row)
        self._follow()

    def add_frames(
        self, names: str | Sequence[str] | None = None, size: float | None = None
    ) -> list[Any]:
        """Draws the axes of frames, x red, y green and z blue, with their names. They follow.

        Returns their nodes. Raises ValueError for a frame that the model does not have, or a size
        that is not positive.

        Arguments:
            names: of frames; None: of all bodies
            size: m, the length of an axis; None: a tenth of `size`

        Examples:
            >>> from featherlane.interop import view
            >>> page = view.show(arm, q)
            >>> nodes = page.add_frames("link2")
            >>> page.close()
        """
        if names is None:
            names = self.model.body_names
        frames = [self.model.frame(x) for x in ([names] if isinstance(names, str) else names)]
        length = 0.1 * self.size if size is None else positive("size", size, "metres")
        nodes: list[Any] = []
        with self._lock:
            for frame in frames:
                mark, added = frame_axes(self.server.scene, frame, self.places, length)
                self._mark(f"frame {frame.name}", mark)
                nodes += added
        return nodes

    def add_targets(
        self, poses: ArrayLike, size: float | None = None, name: str = "targets"
    ) -> Any:
        """Draws targets that stand still: axes at poses, or balls at points.

        Returns their node. Raises ValueError for another shape, NaN or a matrix without a rotation.

        Arguments:
            poses: (..., 4, 4) in the world's axes, or points (..., 3), m
            size: m, the length of an axis; None: a tenth of `size`
            name: of the node; targets of another name stay

        Examples:
            >>> from featherlane.interop import view
            >>> page = view.show(arm, q)
            >>> node = page.add_targets(arm.frame_placement(q, "link2"))
            >>> page.close()
        """
        length = 0.1 * self.size if size is None else positive("size", size, "metres")
        if not isinstance(name, str) or not name.strip("/"):
            raise ValueError(f"name is {name!r:.60}: wanted the name of a node, such as 'goal'")
        return targets(self.server.scene, poses, length, f"/targets/{name}")

    def add_forces(self, forces: Mapping[str, ArrayLike], scale: float | None = None) -> list[Any]:
        """Draws forces as arrows from the origins of frames. They follow the frames and the time.

        Returns the nodes of the arrows. Raises TypeError for what is no dictionary, ValueError for
        an unknown frame, another shape, NaN, or a scale that is not positive.

        Arguments:
            forces: {name of a frame: (3,), N, in the world's axes}; for rollouts also (T, 3), or
                (robots, T, 3)
            scale: N for each metre of an arrow; None: the largest is as long as a third of `size`

        Examples:
            >>> from featherlane.interop import view
            >>> page = view.show(arm, q)
            >>> nodes = page.add_forces({"link2": [0.0, 0.0, -20.0]}, scale=50.0)
            >>> page.close()
        """
        robots, steps = self._rollouts.shape[:2]
        arrays = checked_forces(forces, robots, steps)
        frames = [self.model.frame(name) for name in arrays]
        most = max(float(np.linalg.norm(x, axis=-1).max()) for x in arrays.values())
        if scale is None:
            scale = 3 * most / self.size or 1.0
        scale, nodes = positive("scale", scale, "N for each metre"), []
        with self._lock:
            for frame, force in zip(frames, arrays.values(), strict=True):
                mark, node = force_arrows(
                    self.server.scene, frame, self.places, force, scale, 0.1 * self.size
                )
                self._mark(f"force {frame.name}", mark)
                nodes.append(node)
        return nodes

    def add_trajectories(self, names: str | Sequence[str], q: Any = None) -> list[Any]:
        """Draws the lines of frames' origins through rollouts.

        Returns their nodes. Raises ValueError for a frame that the model does not have, a q of
        another shape, or without a rollout.

        Arguments:
            names: of frames
            q: (T, nq), or (robots, T, nq), or the result of `model.rollout`; None: the rollouts
                that the page plays

        Examples:
            >>> from featherlane.interop import view
            >>> moved = arm.rollout(q, v, np.zeros((50, 2)), 0.01)
            >>> page = view.show(arm, moved, dt=0.01)
            >>> nodes = page.add_trajectories("link2")
            >>> page.close()
        """
        frames = [self.model.frame(x) for x in ([names] if isinstance(names, str) else names)]
        rollouts = self._rollouts if q is None else checked_rollouts(self.model, q)[0]
        robots, rows, nq = rollouts.shape
        if rows < 2:
            raise ValueError(f"q has {rows} row: wanted a rollout of two or more for a line")
        if robots not in (1, len(self.places)):
            raise ValueError(f"q has {robots} rollouts: wanted 1 or {len(self.places)}, as robots")
        placements = body_placements(self.model, rollouts.reshape(-1, nq))
        placements = placements.reshape(robots, rows, -1, 4, 4)
        placements = np.repeat(placements, len(self.places) // robots, 0)
        placements[..., :3, 3] += self.places[:, None, None]
        scene = self.server.scene
        return [trajectory_line(scene, frame, self.places, placements) for frame in frames]

    def record(self, path: str | os.PathLike[str]) -> Path:
        """Writes what the page draws to a file, which needs no Python to be played.

        Rollouts are written with 30 pictures a second, or one for each row if there are fewer. A
        file .html holds the viewer, too: any browser opens it by a double click, and plays it with
        a time slider. A file .viser is smaller, and is played by viser's page, served with
        `viser-build-client`, at `?playbackPath=` and the file's address. Returns the path. Raises
        ValueError for another ending, OSError for a file that cannot be written.

        Arguments:
            path: the file, .html or .viser

        Examples:
            >>> from featherlane.interop import view
            >>> page = view.show(arm, q)
            >>> print(page.record("arm.html"))
            arm.html
            >>> page.close()
        """
        path = Path(path)
        if path.suffix not in (".html", ".viser"):
            raise ValueError(f"path is {str(path)!r:.60}: wanted a file .html or .viser")
        rows = self._rollouts.shape[1]
        step = max(1, round(1 / (FRAME_RATE * self.dt)))
        with path.open("wb") as file, self._lock:
            row, drawn = self._row, self._q
            if rows > 1:
                self._show_row(0)
            recording = self.server.get_scene_serializer()
            for n in range(step, rows, step):
                recording.insert_sleep(step * self.dt)
                self._show_row(n)
            html = path.suffix == ".html"
            file.write(recording.as_html().encode() if html else recording.serialize())
            self._draw(drawn, row)
        return path

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

    def _draw(self, q: np.ndarray, row: int) -> None:
        """Draws configurations (robots, nq) that are those of a row of the rollouts."""
        placements = body_placements(self.model, q)
        placements[..., :3, 3] += self.places[:, None]
        with self._lock, self.server.atomic():
            self._q, self._row, self._placements = q, row, placements
            self._robots.move(placements)
            for mark in self._marks.values():
                mark(placements, row)

    def _show_row(self, row: int) -> None:
        self._draw(self._rollouts[:, row], row)

    def _mark(self, key: str, mark: Mark) -> None:
        """Keeps a mark that follows the robots, and draws it."""
        self._marks[key] = mark
        mark(self._placements, self._row)

    def _surround(self, shapes: Sequence[Shape]) -> None:
        """Adds the ground below the robots, and looks at them from in front."""
        low, high = bounds(shapes, self._placements)
        size, middle = max(float(np.linalg.norm(high - low)), 0.1), (low + high) / 2
        cell = 10.0 ** np.floor(np.log10(self.size / 2))
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
        camera, away = self.server.initial_camera, FROM_ABOVE if self._many else FROM_AFAR
        camera.position, camera.look_at = middle + size * np.array(away), middle

    # The panel

    def _controls(self) -> None:
        gui, rows = self.server.gui, self._rollouts.shape[1]
        if self.notes:
            gui.add_markdown(_not_drawn(self.notes))
        for title, handles in self._switched.items():
            if handles:
                switch = gui.add_checkbox(title, False)
                switch.on_update(partial(_show, switch, handles))
                _show(switch, handles)
        if rows > 1:
            self._player = Player(gui, rows, self.dt, self._show_row, self._closed)
        elif not self._many:
            self._sliders = Sliders(gui, self.model, self.q, self._slid)
            self._gizmos = [
                RootGizmo(
                    self.server.scene, self.model, n, self.places[0], self.size / 3, self._dragged
                )
                for n in free_roots(self.model)
            ]
            self._follow()

    def _follow(self) -> None:
        """Moves sliders and gizmos to the configuration that is drawn."""
        if self._sliders:
            self._sliders.follow(self.q)
        for gizmo in self._gizmos:
            gizmo.follow(self._placements[0])

    def _slid(self, q: np.ndarray) -> None:
        with self._lock:
            self._draw(q[None], 0)
            self._follow()

    def _dragged(self, _: Any) -> None:
        """Moves the root to its gizmo, which is not moved: a hand holds it."""
        with self._lock:
            q = self.q
            for gizmo in self._gizmos:
                q = gizmo.configuration(q)
            self._draw(q[None], 0)
            if self._sliders:
                self._sliders.follow(q)


def _not_drawn(notes: Sequence[str]) -> str:
    """Returns what could not be drawn as a list, in whose long names lines may break at slashes."""
    return "Not drawn:\n" + "".join("\n- " + note.replace("/", "/\u200b") for note in notes)


def _show(switch: Any, handles: Sequence[Any], _: Any = None) -> None:
    """Shows what a checkbox switches, or hides it."""
    for handle in handles:
        handle.visible = switch.value


def show(
    model: Model,
    q: Any = None,
    *,
    dt: float = 0.02,
    places: Any = None,
    source: str | os.PathLike[str] | None = None,
    xacro_args: Mapping[str, Any] | None = None,
    packages: Iterable[str | os.PathLike[str]] = (),
    host: str = "localhost",
    port: int = 8080,
) -> View:
    """Draws a robot, or many of one model, on a page that this process serves, at the URL of the
    result, until the process ends.

    A configuration has sliders in degrees and metres, stopped at the limits, and handles that move
    and turn a free root. Rollouts have a slider for the time. The result draws frames, targets,
    forces and trajectories, and records to a file.

    Raises ImportError without the extra `view`, ValueError for a q of another shape or with NaN,
    and for an invalid address, ModelError for a file that cannot be read.

    Arguments:
        model: the robot
        q: (nq,), rad or m; or (T, nq), or (robots, T, nq), or the result of `model.rollout` for one
            state or for a batch of states, which are played, all in one scene; None: the neutral
            one, moved into the limits
        dt: s, from one configuration to the next
        places: (3,) or (robots, 3), m, added to where q puts each robot; zeros: where q says. None:
            a grid
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
    rollouts, many = checked_rollouts(model, model.clip(model.neutral()) if q is None else q)
    dt = positive("dt", dt, "seconds")
    spots = None if places is None else checked_places(places, len(rollouts))
    check_address(host, port)
    drawn = drawn_shapes(model, source, xacro_args=xacro_args, packages=packages)
    server = viser.ViserServer(host=host, port=int(port), label=model.name, verbose=False)
    try:
        return View(model, rollouts, dt, drawn, server, spots, many)
    except BaseException:
        server.stop()
        raise
