"""An organisation drawn as SVG: the robot's tree on the left, its arrays on the right (as figure 11
of Dadu-RBD, 2023, has them).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from featherlane.accelerators.organise.array_choices import ArrayChoice
from featherlane.accelerators.organise.organisation import Organisation
from featherlane.backends.fpga.text import every
from featherlane.robot.parts import WORLD

INK, FAINT = "#75808a", "#8b949e"  # readable on white and on dark pages: there is no background
COLOURS = INK, "#2f81f7", "#d2691e", "#8250df", "#2da44e", "#bf3989", "#9a6700", "#1b7c83"
STEP, ROW, RADIUS = 26, 44, 8  # of joints and lines of the tree, in pixels
BOX, GAP, HEIGHT = 250, 100, 92  # of arrays: the width, what is between two, the height
INDENT, ROOM = 30, 18  # of arrays below one another: right of what carries them, and between
MARGIN, HEAD, LINE, LETTER = 24, 62, 15, 6
WORDS = 65  # the room right of the joints of a box for how it is fed
FONT = "font-family='DejaVu Sans, Helvetica, sans-serif'"
DASHED = " stroke-dasharray='4 3'"


class _Text(NamedTuple):
    x: float
    y: float
    text: str
    size: int = 12
    colour: str = INK
    anchor: str = "start"
    weight: str = "normal"

    def __str__(self) -> str:
        return (
            f"<text x='{self.x:g}' y='{self.y:g}' font-size='{self.size}' "
            f"fill='{self.colour}' text-anchor='{self.anchor}' "
            f"font-weight='{self.weight}'>{escape(self.text)}</text>"
        )


class _Rectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    line: str
    fill: str = "none"
    opacity: float = 1
    radius: int = 5

    def __str__(self) -> str:
        return (
            f"<rect x='{self.x:g}' y='{self.y:g}' width='{self.width:g}' height='{self.height:g}' "
            f"rx='{self.radius}' stroke='{self.line}' fill='{self.fill}' "
            f"opacity='{self.opacity:g}'/>"
        )


def svg(organisation: Organisation, narrow: bool = False) -> str:
    """Returns a figure of an organisation: each joint as a circle in the colour of its array, and
    each array as a box with its parts, what it is broadcast and what it gives back. narrow: for
    narrow screens, with the arrays below the tree and below one another.
    """
    root, *words = _heading(organisation)
    if narrow:
        lines = [part for line in words for part in line.split(", ")]
        head = [_Text(MARGIN, 42 + LINE * n, line) for n, line in enumerate([root, *lines])]
        tree, width, tall = _tree(organisation, HEAD + LINE * len(lines))
        boxes, right, high = _outline(organisation, tall + ROOM)
        right = max(right, width + MARGIN)
    else:
        tree, width, tall = _tree(organisation, HEAD)
        left = width + 2 * MARGIN
        head = [_Text(MARGIN, 42, root), _Text(left, 24, words[0], 13, weight="bold")]
        head.append(_Text(left, 42, words[1]))
        boxes, right, high = _boxes(organisation, left)
    height = max(tall, high) + MARGIN
    name = _Text(MARGIN, 24, organisation.model.name, 16, weight="bold")
    body = [*map(str, (name, *head)), *tree, *boxes]
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{right:g}' height='{height:g}' "
            f"viewBox='0 0 {right:g} {height:g}' {FONT}>",
            f"<title>The arrays of {escape(organisation.model.name)}</title>",
            "<defs><marker id='to' markerWidth='7' markerHeight='7' refX='6' refY='3' "
            f"orient='auto'><path d='M0,0 L6,3 L0,6 z' fill='{INK}'/></marker></defs>",
            *body,
            "</svg>",
            "",
        ]
    )


def _heading(organisation: Organisation) -> Iterator[str]:
    """The root, the function and the products that sharing saves."""
    o = organisation
    root = f"root {o.root}"
    if o.before.bodies[0].name != o.root:
        root += f", before {o.before.bodies[0].name}"
    yield root
    yield f"{o.function.replace('_', ' ')}, a state {every(o.interval)}"
    shared = sum(array.separate - array.products for array in o.arrays)
    products = sum(array.products for array in o.arrays)
    saved = f", {products + shared:,} if each limb had its own" if shared else ""
    yield f"{products:,} products in circuits{saved}"


# The tree of joints


def _tree(organisation: Organisation, top: float) -> tuple[list[str], float, float]:
    """Returns the circles and lines below a height, and the extent."""
    drawing = _TreeDrawing(organisation, top)
    for first in organisation.below[WORLD]:
        for limb in range(len(organisation.arrays[first].limbs)):
            drawing.add_limb(first, limb, MARGIN + RADIUS, None)
    return [*drawing.lines, *drawing.joints], drawing.right, top + ROW * drawing.rows


@dataclass
class _TreeDrawing:
    """The tree of joints while it is drawn. rows: of limbs that carry no others; right: the right
    end of names.
    """

    organisation: Organisation
    top: float
    joints: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rows: int = 0
    right: float = 0.0

    def add_limb(
        self, number: int, limb: int, x: float, before: tuple[float, float] | None
    ) -> None:
        """Draws the joints of a limb from x on, then the limbs that it carries. before: the joint
        that carries it.
        """
        array, y = self.organisation.arrays[number], self.top + ROW * self.rows + ROW / 2
        for joint in array.limbs[limb]:
            self._add_joint(joint, _colour(number), (x, y), before)
            before, x = (x, y), x + STEP
        label = _short(array, limb)
        self.right = max(self.right, x + LETTER * len(label))
        branches = [
            (child, k)
            for child in self.organisation.below[number]
            for k in _limbs_on(self.organisation, child, number, limb)
        ]
        if branches:
            left = before[0] - RADIUS if before else x
            self.joints.append(str(_Text(left, y - 13, label, 10)))
            x = max(x, left + LETTER * len(label) + 2 * RADIUS)
        else:
            self.joints.append(str(_Text(x - STEP + 14, y + 4, label, 10)))
            self.rows += 1
        for child, k in branches:
            self.add_limb(child, k, x, before)

    def _add_joint(
        self,
        name: str,
        colour: str,
        at: tuple[float, float],
        before: tuple[float, float] | None,
    ) -> None:
        """Draws a joint, and the line to the one before it."""
        x, y = at
        if before is not None:
            self.lines.append(
                f"<line x1='{before[0]:g}' y1='{before[1]:g}' x2='{x:g}' y2='{y:g}' "
                f"stroke='{FAINT}' stroke-width='2'/>"
            )
        self.joints.append(
            f"<circle cx='{x:g}' cy='{y:g}' r='{RADIUS}' fill='{colour}'>"
            f"<title>{escape(name)}</title></circle>"
        )


def _limbs_on(organisation: Organisation, child: int, number: int, limb: int) -> range:
    """The limbs of an array that stand on one limb of the array that carries it."""
    count = len(organisation.arrays[child].limbs)
    each = count // len(organisation.arrays[number].limbs)
    return range(each * limb, each * (limb + 1))


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _short(array: ArrayChoice, limb: int) -> str:
    return array.name.split(", ")[limb] if len(array.limbs) > 1 else array.name


# The arrays


def _boxes(organisation: Organisation, left: float) -> tuple[list[str], float, float]:
    """The boxes of arrays, each left of those that it carries, and the right and lower ends."""
    drawn: list[str] = []
    row, right = [0], [left]

    def enter(number: int, depth: int) -> float:
        """Draws an array and all on it, and returns the height of its middle."""
        x = left + depth * (BOX + GAP)
        right[0] = max(right[0], x + BOX + MARGIN)
        below = organisation.below[number]
        if below:
            middles = [enter(child, depth + 1) for child in below]
            y = (middles[0] + middles[-1]) / 2
        else:
            middles = []
            y = HEAD + row[0] * (HEIGHT + ROOM) + HEIGHT / 2
            row[0] += 1
        drawn.extend(_box(organisation, number, x, y))
        for middle in middles:
            drawn.extend(_links(x + BOX, y, x + BOX + GAP, middle))
        return y

    for first in organisation.below[WORLD]:
        enter(first, 0)
    return drawn, right[0], HEAD + row[0] * (HEIGHT + ROOM)


def _outline(organisation: Organisation, top: float) -> tuple[list[str], float, float]:
    """The boxes of arrays below a height, each below the one that carries it and right of its left
    side, and the right and lower ends.
    """
    drawn: list[str] = []
    low, right = [top], [0.0]

    def enter(number: int, x: float) -> float:
        """Draws an array and all on it, and returns the height of its middle."""
        y = low[0] + HEIGHT / 2
        low[0] += HEIGHT + ROOM
        right[0] = max(right[0], x + BOX + MARGIN)
        drawn.extend(_box(organisation, number, x, y))
        bottom = y + HEIGHT / 2
        for child in organisation.below[number]:
            middle = enter(child, x + INDENT)
            forth = f"M{x + 20:g},{bottom:g} V{middle - 9:g} H{x + INDENT - 1:g}"
            back = f"M{x + INDENT:g},{middle + 9:g} H{x + 10:g} V{bottom + 2:g}"
            drawn.extend((_path(forth), _path(back, DASHED)))
        return y

    for first in organisation.below[WORLD]:
        enter(first, MARGIN / 2)
    return drawn, right[0], low[0] - ROOM


def _box(organisation: Organisation, number: int, x: float, y: float) -> Iterator[str]:
    """An array: its name, its operations, its interval and its joints, forward parts above."""
    array, colour, top = organisation.arrays[number], _colour(number), y - HEIGHT / 2
    title = array.name
    if array.parent == WORLD and len(organisation.below[WORLD]) == 1:
        title = f"{organisation.root} (root)"
    for behind in range(min(array.slots, 4) - 1, 0, -1):  # slots as a pile
        yield _edge(x + 4 * behind, top - 4 * behind, colour)
    yield str(_Rectangle(x, top, BOX, HEIGHT, colour))
    yield str(_Text(x + 10, top + 17, _fitting(title, 34), 12, colour, weight="bold"))
    label = f"{array.products:,} products, {array.additions:,} sums"
    yield str(_Text(x + 10, top + 33, label, 11))
    if array.is_shared:
        lanes = f" on {array.lanes} lanes" if array.lanes > 1 else ""
        label = f"{array.slots} slots{lanes}, one {every(array.interval)}"
    else:
        label = f"one {every(array.interval)}"
    yield str(_Text(x + 10, top + 33 + LINE, label, 11))
    joints = len(array.limbs[0])
    side = min(20.0, (BOX - 20 - WORDS) / joints - 3)
    for k in range(joints):
        left, bottom = x + 10 + k * (side + 3), top + HEIGHT
        yield str(_Rectangle(left, bottom - 34, side, 11, colour, colour, 0.85, 2))
        yield str(_Rectangle(left, bottom - 19, side, 11, colour, "none", 0.85, 2))
    is_carried = array.parent != WORLD
    if is_carried and (array.is_shared or len(organisation.below[array.parent]) > 1):
        over = "t" if array.is_shared else "s"
        yield str(_Text(x + BOX - 10, top + HEIGHT - 25, f"broadcast {over}", 9, anchor="end"))
        yield str(_Text(x + BOX - 10, top + HEIGHT - 10, f"reduce {over}", 9, anchor="end"))


def _edge(x: float, y: float, colour: str) -> str:
    """The upper and right edges of a box behind another one."""
    return (
        f"<path d='M{x:g},{y + 4:g} V{y:g} H{x + BOX:g} V{y + HEIGHT:g} h-4' fill='none' "
        f"stroke='{colour}' opacity='0.45'/>"
    )


def _links(x: float, y: float, to: float, middle: float) -> Iterator[str]:
    """The ways out (broadcast, in space or over slots) and back (reduced likewise)."""
    yield _path(_curve((x, y - 9), (to - 2, middle - 9)))
    yield _path(_curve((to, middle + 9), (x + 2, y + 9)), DASHED)


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    bend = (end[0] - start[0]) / 2
    return (
        f"M{start[0]:g},{start[1]:g} C{start[0] + bend:g},{start[1]:g} "
        f"{end[0] - bend:g},{end[1]:g} {end[0]:g},{end[1]:g}"
    )


def _path(along: str, dashes: str = "") -> str:
    return (
        f"<path d='{along}' fill='none' stroke='{INK}' "
        f"stroke-width='1.3' marker-end='url(#to)'{dashes}/>"
    )


def _fitting(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def legend() -> Sequence[str]:
    """The meanings of the signs of a figure, a sentence each."""
    return (
        "Circles are joints, in the colours of the arrays that compute them.",
        "A pile is an array whose limbs are time-multiplexed.",
        "Full squares are the forward parts of the joints, empty ones the backward parts.",
        "What a branch needs is broadcast to it, and what it gives is added up (reduced, dashed): "
        "s over arrays beside each other, t over slots.",
    )
