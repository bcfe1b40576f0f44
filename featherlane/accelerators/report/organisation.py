"""Arrays and submodules, as in figure 11 of Dadu-RBD (2023): a row for each limb, a column for
each joint of it, and in each joint its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from featherlane.accelerators.report.boxes import Box
from featherlane.accelerators.report.svg import line, picture, rect, tag, text

STEP_HEIGHT, CELL, GAP, BETWEEN = 19, 112, 28, 22
PASSES = {
    "R": "inverse dynamics",
    "D": "derivatives",
    "M": "M, or M^-1",
    "L": "factor of M",
    "W": "inverse of the factor",
    "P": "products with M^-1",
    "A": "articulated bodies",
}
COLOURS = {"R": "blue", "D": "orange", "M": "green", "L": "red", "W": "red", "P": "violet"}
WAYS = {"f": "outward", "b": "inward", "c": "column by column"}


def meaning(step: str) -> str:
    """A step in words; its name if it has none."""
    if len(step) != 2 or step[0] not in PASSES or step[1] not in WAYS:
        return step
    return f"{PASSES[step[0]]}, {WAYS[step[1]]}"


def limbs(parents: Sequence[int]) -> list[list[int]]:
    """The joints of each limb, from the root outward: a limb ends where several or none begin."""
    children = [[c for c, p in enumerate(parents) if p == i] for i in range(-1, len(parents))]
    chains, begin = list[list[int]](), list(reversed(children[0]))
    while begin:
        limb = [begin.pop()]
        while len(children[limb[-1] + 1]) == 1:
            limb.append(children[limb[-1] + 1][0])
        begin += reversed(children[limb[-1] + 1])
        chains.append(limb)
    return chains


def drawn(boxes: Sequence[Box], parents: Sequence[int], joints: Sequence[str]) -> str:
    """The drawing: boxes are clickable, and say what they need."""
    steps = list(dict.fromkeys(box.step for box in boxes if box.joint is not None))
    of_joint = {j: [box for box in boxes if box.joint == j] for j in range(len(joints))}
    depth = list[int]()
    for parent in parents:
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
    x_of = lambda j: GAP + depth[j] * (CELL + GAP)
    height_of = lambda limb: 20 + STEP_HEIGHT * max(len(of_joint[j]) for j in limb)
    y, top, rows = 8.0, dict[int, float](), limbs(parents)
    for limb in rows:
        top |= dict.fromkeys(limb, y)
        y += height_of(limb) + BETWEEN
    parts = [_link(j, parents[j], x_of, top) for j in range(len(joints))]
    for j, name in enumerate(joints):
        of_limb_joint = sorted(of_joint[j], key=lambda box: steps.index(box.step))
        parts.append(_cell(name, of_limb_joint, x_of(j), top[j]))
    others = [box for box in boxes if box.joint is None and (box.units or box.work)]
    for n, box in enumerate(others):
        parts.append(_box(box, GAP + n * (CELL + GAP), y))
    y += (STEP_HEIGHT + BETWEEN) * bool(others)
    columns = max([*depth, len(others) - 1, 0]) + 1
    width = 2 * GAP + columns * (CELL + GAP) - GAP
    return picture(width, y - BETWEEN + 10, parts, "Modules by limb and joint")


def _link(j: int, parent: int, x_of: object, top: dict[int, float]) -> str:
    """The connection of a joint and its parent: outward and inward, so without a direction."""
    assert callable(x_of)
    x, y = x_of(j), top[j] + 9
    if parent < 0:
        return line([(x - GAP + 8, y), (x, y)], "link") + rect(x - GAP + 5, y - 3, 6, 6, "ground")
    left = x_of(parent) + CELL
    middle = left + GAP / 2
    return line([(left, top[parent] + 9), (middle, top[parent] + 9), (middle, y), (x, y)], "link")


def _cell(name: str, steps: Sequence[Box], x: float, y: float) -> str:
    short = name if len(name) <= 17 else f"{name[:16]}…"
    frame = rect(x, y, CELL, 20 + STEP_HEIGHT * len(steps), "cell", name, rx=5)
    words = text(short, x + CELL / 2, y + 13, "joint", "middle")
    boxes = [_box(box, x + 4, y + 18 + n * STEP_HEIGHT) for n, box in enumerate(steps)]
    return "".join([frame, words, *boxes])


def _box(box: Box, x: float, y: float) -> str:
    """A module as a box, whose title has its operations and its needs."""
    needs, wide = box.needs, CELL - 8
    multipliers = sum(unit.kind.startswith("multiply") for unit in box.units)
    title = (
        f"{box.name}: {meaning(box.step)}; {sum(box.work.values()):,} operations in "
        f"cycles {box.first} to {box.last}, {multipliers} multipliers, {needs.dsps:,.0f} DSPs, "
        f"{needs.luts:,.0f} LUTs, {needs.ffs:,.0f} flip-flops"
    )
    shape = rect(x, y, wide, STEP_HEIGHT - 3, "step", title, rx=3)
    words = text(box.name, x + 6, y + 12, "name")
    if needs.dsps:
        words += text(f"{needs.dsps:,.0f}", x + wide - 6, y + 12, "count", "end")
    reads = " ".join(sorted(box.reads))
    attributes = {"data_box": box.name, "data_reads": reads, "tabindex": 0}
    return tag("g", shape, words, class_=f"box {colour(box.step)}", **attributes)


def colour(step: str) -> str:
    """The class of a step's colour."""
    return COLOURS.get(step[0], "grey") if meaning(step) != step else "grey"


def legend(boxes: Sequence[Box]) -> str:
    """The steps that a design has, in words."""
    steps = dict.fromkeys(box.step for box in boxes if box.joint is not None)
    items = [
        tag("li", tag("i", class_=f"swatch {colour(step)}"), f"<b>{escape(step)}</b> ", words)
        for step in steps
        if (words := escape(meaning(step))) != step
    ]
    return tag("ul", *items, class_="legend")
