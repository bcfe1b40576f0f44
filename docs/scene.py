"""Robots in perspective as an SVG that moves, for the scripts that draw the figures of docs/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from featherlane.tools.figures import FAINT, INK

UNIT = 4  # parts of a pixel, in which points are whole numbers

# Words, shadows and lights, on white and on dark pages
CSS = """
text { fill: %s; font-family: sans-serif; text-anchor: middle }
.shadow { stroke: #000; opacity: .13 }
.light { stroke: #fff; opacity: .38 }
.floor { stroke: %s; opacity: .35 }
@media (prefers-color-scheme: dark) { .shadow { opacity: .4 } .light { opacity: .3 } }
"""


class Limbs(NamedTuple):
    """Lines of a robot, (pictures, lines, points, 3), m, their thickness, m, and their colour, if
    it is not that of the robot.
    """

    points: np.ndarray
    thickness: float
    hue: str = ""

    def placed(self, X: np.ndarray, at: np.ndarray) -> Limbs:
        """These limbs turned by X (3, 3), then moved by `at` (3), m."""
        return self._replace(points=self.points @ X.T + at)


class Scene(NamedTuple):
    """A picture of so many pixels, seen from the eye, m, along y; the horizon is so far below its
    upper edge. seconds: of the loop.
    """

    width: int
    height: int
    eye: np.ndarray
    focus: float  # pixels
    horizon: float  # pixels
    seconds: float

    def page(self, points: np.ndarray) -> np.ndarray:
        """Parts of a pixel (..., 2), whole numbers, of points (..., 3), m."""
        x, depth, z = np.moveaxis(points - self.eye, -1, 0)
        u, v = self.width / 2 + self.focus * x / depth, self.horizon - self.focus * z / depth
        return np.rint(UNIT * np.stack([u, v], -1)).astype(int)

    def scale(self, limbs: Iterable[Limbs]) -> float:
        """Parts of a pixel of a metre, at the mean distance of a robot."""
        depth = np.mean([limb.points[..., 1].mean() for limb in limbs]) - self.eye[1]
        return UNIT * self.focus / float(depth)

    def moving(self, points: np.ndarray, attributes: str) -> str:
        """An element whose lines (pictures, lines, points, 3) move."""
        texts = [path(lines) for lines in self.page(points)]
        values = ";".join(texts)
        return (
            f'<path d="{texts[len(texts) // 2]}" {attributes}><animate attributeName="d" '
            f'dur="{self.seconds:g}s" repeatCount="indefinite" values="{values}"/></path>'
        )

    def robot(self, limbs: Sequence[Limbs], name: str, shaded: bool, opacity: float) -> str:
        """Elements of a robot above its shadow. Each limb is a thick line; shaded: with a thin
        light one on it, which takes its points from the element of this name.
        """
        scale = self.scale(limbs)
        floor = [self.moving(x.points * [1, 1, 0], "") for x in limbs]
        parts = [f'<g class="shadow" stroke-width="{0.1 * scale:.0f}">{"".join(floor)}</g>']
        for i, limb in enumerate(limbs):
            wide = scale * limb.thickness
            hue = f' stroke="{limb.hue}"' if limb.hue else ""
            if not shaded:
                parts.append(self.moving(limb.points, f'stroke-width="{wide:.0f}"{hue}'))
                continue
            line, lift = f"{name}{i}", f"translate({-0.14 * wide:.0f} {-0.2 * wide:.0f})"
            defined = self.moving(limb.points, f'id="{line}"')
            parts += [
                f"<defs>{defined}</defs>",
                f'<use href="#{line}" stroke-width="{wide:.0f}"{hue}/>',
                f'<use href="#{line}" class="light" stroke-width="{0.34 * wide:.0f}" '
                f'transform="{lift}"/>',
            ]
        return f'<g opacity="{opacity:.2f}">{"".join(parts)}</g>'

    def floor(self, x: Sequence[float], y: Sequence[float]) -> str:
        """Lines of a floor at these distances across and along the view, m."""
        across = np.array([[[x[0], b, 0], [x[-1], b, 0]] for b in y])
        along = np.array([[[a, y[0], 0], [a, y[-1], 0]] for a in x])
        rows = [
            f'<path d="{path(line[None])}" opacity="{(k + 1) ** -0.5:.2f}"/>'
            for k, line in enumerate(self.page(across))
        ]
        columns = f'<path d="{path(self.page(along))}" opacity="0.5"/>'
        return f'<g class="floor" stroke-width="{UNIT}">{"".join(rows)}{columns}</g>'

    def text(self, x: float, y: float, words: str, size: float, hue: str = INK) -> str:
        return f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" style="fill:{hue}">{words}</text>'

    def restarted(self, body: str) -> str:
        """A group that fades out before the loop ends and fades in where it begins again."""
        return (
            f'<g>{body}<animate attributeName="opacity" dur="{self.seconds:g}s" '
            'repeatCount="indefinite" values="0;1;1;0" keyTimes="0;0.05;0.94;1"/></g>'
        )

    def svg(self, title: str, body: str, words: Iterable[str]) -> str:
        """The text of a file: lines in parts of a pixel, and words in pixels."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        lines = (
            f'<g transform="scale({1 / UNIT:g})" fill="none" stroke-linecap="round" '
            f'stroke-linejoin="round">{body}</g>'
        )
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{title}</title>'
        style = f"<style>{CSS % (INK, FAINT)}</style>"
        return "\n".join([head, style, lines, *words, "</svg>\n"])


def path(lines: np.ndarray) -> str:
    """A path of lines (n, points, 2): each begins at a point, and goes on by differences."""
    parts = []
    for line in lines:
        steps = " ".join(f"{x} {y}" for x, y in np.diff(line, axis=0))
        parts.append("M{} {}l".format(*line[0]) + (steps or "0 0"))
    return "".join(parts).replace(" -", "-")


def sampled(x: np.ndarray, pictures: int, axis: int) -> np.ndarray:
    """The rows of x along an axis, with pictures in the place of steps, as the first axis."""
    steps = np.rint(np.linspace(0, x.shape[axis] - 1, pictures)).astype(int)
    return np.moveaxis(np.take(x, steps, axis), axis, 0)
