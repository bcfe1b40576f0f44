"""The recursion of Luh, Walker and Paul, step by step as in Lathrop's tables 2 and 4.

Each line is one operation. The paper's backward recursion is outward here, its forward one inward.
"""

from __future__ import annotations

from typing import NamedTuple

from featherlane.algorithms.lathrop.operations import (
    IDENTITY3,
    Arm,
    ArmLink,
    PipelineNode,
    Reaction,
    Tip,
)
from featherlane.robot.spatial import ZERO3, Vector, transpose


class FrameMotion(NamedTuple):
    """Angular velocity and acceleration of frame i, and the acceleration of O_i less gravity."""

    w: Vector
    dw: Vector
    a: Vector


def linear(arm: Arm) -> list[Reaction]:
    """Computes motions outward, then reactions inward, one link after the other.

    Its longest chain has 2 n + 3 multiplications and 6 n + 7 additions.
    """
    motion = FrameMotion(*(arm.spin or (ZERO3, ZERO3)), arm.a)
    forces = []
    for i, link in enumerate(arm.links, 1):
        node = PipelineNode(f"out {i}")
        motion = frame_motion(node, link, motion)
        forces.append(link_forces(node, link, motion))
    above = arm.tip or Tip(IDENTITY3, ZERO3, ZERO3)
    reactions = []
    for i in range(len(arm.links), 0, -1):
        link = arm.links[i - 1]
        reactions.append(reaction(PipelineNode(f"in {i}"), link, forces[i - 1], above))
        above = Tip(link.A, *reactions[-1])
    return reactions[::-1]


def frame_motion(g: PipelineNode, link: ArmLink, before: FrameMotion) -> FrameMotion:
    """Returns the motion of frame i from that of frame i - 1."""
    (w0, dw0, a0), At, p = before, transpose(link.A), link.p
    if link.rotational:
        T2 = g.VA("T2", w0, link.u)
        w = g.MV("w", At, T2)
        T4 = g.VC("T4", w0, link.u)
        T5 = g.VA("T5", link.du, T4)
        T6 = g.VA("T6", T5, dw0)
        dw = g.MV("dw", At, T6)
    else:
        w, dw = g.MV("w", At, w0), g.MV("dw", At, dw0)
    T7 = g.VC("T7", w, p)
    T8 = g.VC("T8", w, T7)
    T9 = g.VC("T9", dw, p)
    if not link.rotational:
        T8 = g.VA("T8 slide", T8, _slide(g, link, w))
    T10 = g.VA("T10", T8, T9)
    T11 = g.MV("T11", At, a0)
    return FrameMotion(w, dw, g.VA("a", T11, T10))


def _slide(g: PipelineNode, link: ArmLink, w: Vector) -> Vector:
    """Returns the acceleration that a sliding joint adds, A^T du + 2 w x A^T u."""
    At = transpose(link.A)
    twice = g.SV("2 u", 2.0, g.MV("u", At, link.u))
    return g.VA("slide", g.MV("du", At, link.du), g.VC("2 w x u", w, twice))


class LinkForces(NamedTuple):
    """The net force F on a link, and the net torque N about its centre of mass."""

    F: Vector
    N: Vector


def link_forces(g: PipelineNode, link: ArmLink, motion: FrameMotion) -> LinkForces:
    """Returns the forces that move a link, by Newton's and Euler's equations."""
    (w, dw, a), r = motion, link.r
    T12 = g.VC("T12", w, r)
    T13 = g.VC("T13", w, T12)
    T14 = g.VC("T14", dw, r)
    T15 = g.VA("T15", T13, T14)
    F = g.SV("F", link.m, g.VA("ac", T15, a))
    T16 = g.MV("T16", link.J, w)
    T17 = g.VC("T17", w, T16)
    T18 = g.MV("T18", link.J, dw)
    return LinkForces(F, g.VA("N", T17, T18))


def reaction(g: PipelineNode, link: ArmLink, load: LinkForces, above: Tip) -> Reaction:
    """Returns f_i and n_i from those of link i + 1, or of the tip."""
    T19 = g.MV("T19", above.A, above.f)
    f = g.VA("f", load.F, T19)
    T20 = g.VC("T20", link.s, load.F)
    T21 = g.VA("T21", T20, load.N)
    T22 = g.VC("T22", link.p, T19)
    T23 = g.VA("T23", T22, T21)
    T24 = g.MV("T24", above.A, above.n)
    return Reaction(f, g.VA("n", T23, T24))
