"""Lathrop's logarithmic form, which joins neighbouring subchains (table 5 and appendix A, derived
again). Each line is one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from featherlane.algorithms.lathrop.linear import FrameMotion, LinkForces, link_forces
from featherlane.algorithms.lathrop.operations import (
    IDENTITY3,
    Arm,
    ArmLink,
    PipelineNode,
    Reaction,
)
from featherlane.robot.spatial import ZERO3, Matrix, Vector, transpose


class Subchain(NamedTuple):
    """Links a to b seen from frame b, moved by the joints between a and b alone.

    W takes coordinates from frame b to frame a - 1; w, dw, a are the motion of frame b in frame
    a - 1; Q, R, S are sums over the links j, in frame b, of the sliding velocity A_j^T u_j, of p_j,
    and of w_aj x p_j.
    """

    W: Matrix
    w: Vector
    dw: Vector
    a: Vector
    Q: Vector
    R: Vector
    S: Vector


class Tail(NamedTuple):
    """Links a to b seen from frame a: V takes coordinates there from frame b + 1, f and n are the
    forces that move the links, about O_{a-1}, and P leads from O_{a-1} to O_b.
    """

    V: Matrix
    f: Vector
    n: Vector
    P: Vector


def logarithmic(arm: Arm) -> list[Reaction]:
    """Joins subchains to longer ones, outward and inward, on ceil(log2(n + 1)) levels each."""
    outward = zip(arm.links, _motions(arm), strict=True)
    forces = [
        link_forces(PipelineNode(f"out 0,{i}"), link, motion)
        for i, (link, motion) in enumerate(outward, 1)
    ]
    following = [*[link.A for link in arm.links[1:]], arm.tip.A if arm.tip else IDENTITY3]
    inward = zip(arm.links, forces, following, strict=True)
    tails = [tail(PipelineNode(f"in {i},{i}"), *x) for i, x in enumerate(inward, 1)]
    if arm.tip:
        tails.append(Tail(IDENTITY3, arm.tip.f, arm.tip.n, ZERO3))
    last = len(tails)

    def joined(a: int, b: int, Y: Tail, X: Tail) -> Tail:
        return join_tails(PipelineNode(f"in {last - b},{last - a}"), X, Y)

    to_the_tip = prefixes(joined, tails[::-1])[::-1]
    return [Reaction(Y.f, Y.n) for Y in to_the_tip[: len(arm.links)]]


def _motions(arm: Arm) -> list[FrameMotion]:
    """Returns the motion of each link, from the base and the links up to it."""
    chain = [single(PipelineNode(f"out {i},{i}"), link) for i, link in enumerate(arm.links, 1)]
    spin, first = arm.spin or (ZERO3, ZERO3), 0 if arm.spin else 1
    base = Subchain(IDENTITY3, *spin, arm.a, ZERO3, ZERO3, ZERO3)
    if arm.spin:
        chain.insert(0, base)
    else:  # the base has gravity alone: a product and a sum at the first link, no element more
        chain[0] = join(PipelineNode("out 0,1"), base, chain[0])

    def joined(a: int, b: int, X: Subchain, Y: Subchain) -> Subchain:
        return join(PipelineNode(f"out {first + a if a else 0},{first + b}"), X, Y)

    from_the_base = prefixes(joined, chain)
    return [FrameMotion(X.w, X.dw, X.a) for X in from_the_base[1 - first :]]


def prefixes(combine: Callable[..., Any], elements: Sequence[Any]) -> list[Any]:
    """Returns all X_0b, by combine(a, b, X_ak, X_kb) with X_kb from k + 1 to b, in ceil(log2 n)
    levels: the paper's figure 5 (Sklansky, Conditional-sum addition logic, 1960).
    """
    result, step = list(elements), 1
    while step < len(result):
        for b in range(len(result)):
            if b & step:
                middle = b // step * step
                result[b] = combine(middle - step, b, result[middle - 1], result[b])
        step *= 2
    return result


def single(g: PipelineNode, link: ArmLink) -> Subchain:
    """Returns the subchain of one link."""
    At, p = transpose(link.A), link.p
    if not link.rotational:
        Q, a = g.MV("Q", At, link.u), g.MV("a", At, link.du)
        return Subchain(link.A, ZERO3, ZERO3, a, Q, p, ZERO3)
    w, dw = g.MV("w", At, link.u), g.MV("dw", At, link.du)
    S = g.VC("S", w, p)
    a = g.VA("a", g.VC("dw x p", dw, p), g.VC("w x S", w, S))
    return Subchain(link.A, w, dw, a, ZERO3, p, S)


def join(g: PipelineNode, X: Subchain, Y: Subchain) -> Subchain:
    """Joins the links a to k and k + 1 to b."""
    Wt = transpose(Y.W)
    w, dw = g.MV("W w", Wt, X.w), g.MV("W dw", Wt, X.dw)
    wxR = g.VC("w x R", w, Y.R)
    twice = g.SV("2 (S + Q)", 2.0, g.VA("S + Q", Y.S, Y.Q))
    centripetal = g.VC("w x", w, g.VA("w x R + 2 (S + Q)", wxR, twice))
    turning = g.VA("a turning", centripetal, g.VC("dw x R", dw, Y.R))
    return Subchain(
        W=g.MM("W", X.W, Y.W),
        w=g.VA("w", w, Y.w),
        dw=g.VA("dw", g.VA("dw turning", g.VC("w x w", w, Y.w), Y.dw), dw),
        a=g.VA("a", g.VA("a own", turning, Y.a), g.MV("W a", Wt, X.a)),
        Q=g.VA("Q", g.MV("W Q", Wt, X.Q), Y.Q),
        R=g.VA("R", g.MV("W R", Wt, X.R), Y.R),
        S=g.VA("S", g.VA("S turning", wxR, Y.S), g.MV("W S", Wt, X.S)),
    )


def tail(g: PipelineNode, link: ArmLink, load: LinkForces, following: Matrix) -> Tail:
    """Returns the tail of one link; following: A of the next link."""
    n = g.VA("n", g.VC("s x F", link.s, load.F), load.N)
    return Tail(following, load.F, n, link.p)


def join_tails(g: PipelineNode, X: Tail, Y: Tail) -> Tail:
    """Joins the links a to k and k + 1 to b."""
    f, n = g.MV("V f", X.V, Y.f), g.MV("V n", X.V, Y.n)
    near = g.VA("n own", g.VC("P x f", X.P, f), X.n)
    return Tail(
        V=g.MM("V", X.V, Y.V),
        f=g.VA("f", f, X.f),
        n=g.VA("n", n, near),
        P=g.VA("P", g.MV("V P", X.V, Y.P), X.P),
    )
