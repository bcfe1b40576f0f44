"""Loops of any format: their frames and constraints, before links are assembled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from featherlane.errors import ModelError
from featherlane.robot.constraint_types import Constraint, Hinge, LoopClosure, Pin, Weld
from featherlane.robot.loaders.specs import FrameSpec
from featherlane.robot.loaders.words import listed, near, quoted, unused
from featherlane.robot.parts import IDENTITY, Floats, Placement
from featherlane.robot.row_softness import DEFAULT_SOFTNESS, RowSoftness

KINDS = ("pin", "hinge", "weld")


class LoopEnd(NamedTuple):
    """One side of a loop: a placement on a named frame, and that frame's placement on a link."""

    frame: str
    placement: Placement
    link: str
    frame_on_link: Placement = IDENTITY


class LoopSpec(NamedTuple):
    """A loop of a file: two sides that coincide, but for the rotation of a pin or of a hinge."""

    name: str
    kind: str  # one of KINDS
    ends: tuple[LoopEnd, LoopEnd]
    axis: Floats = (0.0, 0.0, 1.0)  # of a hinge, with the same entries in both frames
    where: str = ""
    softness: RowSoftness = DEFAULT_SOFTNESS


def check_links(loops: Iterable[LoopSpec], links: Collection[str]) -> None:
    """Raises ModelError for loops of links that do not exist."""
    for loop in loops:
        for end in loop.ends:
            if end.link not in links:
                hint = near(end.link, links)
                raise ModelError(f"{loop.where}: its link {quoted(end.link)} does not exist{hint}")


def refuse(loops: Sequence[LoopSpec]) -> None:
    """Raises ModelError for a file with loops, and says how to load it."""
    if loops:
        raise ModelError(
            f"{loops[0].where}: links are closed into loops: {listed([x.name for x in loops])}; "
            'load with loops="keep" to have constraints in model.loops, or with loops="drop" to '
            "leave these out"
        )


def loop_frames(
    loops: Iterable[LoopSpec], taken: set[str | None]
) -> tuple[list[FrameSpec], list[LoopClosure]]:
    """Returns the frames that loops add, "loop/frame", and the constraints between them. A side
    that is at a named frame adds none. taken: names of frames, to which the new ones are added.
    """
    frames: list[FrameSpec] = []
    closures = []
    for loop in loops:
        names = []
        for end in loop.ends:
            name = end.frame
            if end.placement != IDENTITY:
                name = unused(f"{loop.name}/{end.frame}", taken)
                place = end.frame_on_link * end.placement
                frames.append(FrameSpec(name, end.link, place, loop.where))
            names.append(name)
        closures.append(LoopClosure(_constraint(loop, *names), softness=loop.softness))
    return frames, closures


def _constraint(loop: LoopSpec, frame: str, to: str) -> Constraint:
    if loop.kind == "hinge":
        return Hinge(frame, to, loop.axis)
    return Weld(frame, to) if loop.kind == "weld" else Pin(frame, to)
