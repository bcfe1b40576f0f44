"""Robots in figures of docs/, drawn by the script of the package's page, drawing.mjs, in Node."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

import featherlane as fl
from featherlane.backends.wasm.files import page_text
from featherlane.functions.figure import figure
from featherlane.tools.figures import INK

SHADES = 12
# Of faces in light and in shade, as in page.css
ON_WHITE, ON_DARK = ("#dbe6ef", "#4d6f8c"), ("#a9c3d8", "#24384a")
DRAW = """
import { readFileSync } from 'node:fs'
const { robots, width, height, shades } = JSON.parse(readFileSync('given.json'))
const names = Array.from({ length: shades }, (_, n) => n)
const drawn = robots.map(({ about, points, rotations, yaw, size }) => {
  const figure = { points: Float64Array.from(points), rotations: Float64Array.from(rotations) }
  const still = { points: Float64Array.from(about.still.points),
    rotations: Float64Array.from(about.still.rotations) }
  const place = (n, most) => Array.from({ length: points.length / 3 }, (_, k) => points[3 * k + n])
    .reduce((x, y) => most(x, y), 0)
  Object.assign(view, { yaw, low: [0, 1, 2].map(n => place(n, Math.min)) })
  view.high = view.low.map(x => x + size)
  view.low = view.low.map((x, n) => (x + place(n, Math.max)) / 2 - size / 2)
  view.high = view.low.map(x => x + size)
  globalThis.robot = {}
  const parts = seenFaces(facesOnBodies(shapesOf(about, still)), figure,
    view.project(width, height), names)
  const found = []
  for (const part of parts.sort((x, y) => y.depth - x.depth)) {
    const face = { corners: [] }
    part.draw({ beginPath() {}, closePath() {}, fill() {}, stroke() {},
      lineTo(x, y) { face.corners.push([x, y]) }, set fillStyle(shade) { face.shade = shade } })
    found.push([face.shade, face.corners])
  }
  return found
})
console.log(JSON.stringify(drawn))
"""


class Cell(NamedTuple):
    """A robot of a figure, with a configuration, words below it, and the view: the side of a cube
    that fills the cell, m, and the angle about the vertical, rad.
    """

    model: fl.Model
    q: np.ndarray
    words: str
    size: float
    yaw: float = 0.7


def svg(cells: Sequence[Cell], columns: int, side: int, title: str, letters: int = 15) -> str:
    """The text of a figure: cells of so many pixels, in rows of so many columns."""
    below = round((1 + 1.3 * max(cell.words.count("\n") + 1 for cell in cells)) * letters)
    rows = -(-len(cells) // columns)
    width, height = columns * side, rows * (side + below)
    drawn = []
    for n, (cell, faces) in enumerate(zip(cells, _faces(cells, side), strict=True)):
        x, y = n % columns * side, n // columns * (side + below)
        paths = "".join(f'<path class="s{shade}" d="{_path(face)}"/>' for shade, face in faces)
        words = "".join(
            f'<text x="{side / 2:g}" y="{side + (k + 1) * 1.3 * letters:g}">{escape(line)}</text>'
            for k, line in enumerate(cell.words.split("\n"))
        )
        drawn.append(f'<g transform="translate({x} {y})">{paths}{words}</g>')
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{title}</title>'
    text = f"text {{ fill: {INK}; font: {letters}px sans-serif; text-anchor: middle }}"
    dark = f"@media (prefers-color-scheme: dark) {{\n{_shades(ON_DARK)}\n}}"
    style = f"<style>{text} path {{ stroke-width: .6 }}\n{_shades(ON_WHITE)}\n{dark}</style>"
    return "\n".join([head, style, *drawn, "</svg>\n"])


def _faces(cells: Sequence[Cell], side: int) -> list[list[tuple[int, list[list[float]]]]]:
    """The faces of each robot that are seen, the farthest first: shade and corners, pixels."""
    given = {"width": side, "height": side, "shades": SHADES}
    given["robots"] = [_robot(cell) for cell in cells]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "given.json").write_text(json.dumps(given), encoding="utf-8")
        script = page_text("dynamics.mjs") + page_text("drawing.mjs") + DRAW
        Path(folder, "run.mjs").write_text(script, encoding="utf-8")
        done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, check=True)
    return list(json.loads(done.stdout))


def _robot(cell: Cell) -> dict[str, object]:
    made = figure(cell.model)
    placed = fl.compile(made.graph)
    at = [[x.ravel().tolist() for x in placed(q)] for q in (cell.q, cell.model.neutral())]
    (points, rotations), still = at[0], dict(zip(("points", "rotations"), at[1], strict=True))
    shapes = [
        {
            "body": shape.body,
            "kind": shape.kind,
            "size": list(shape.size),
            "R": np.ravel(shape.placement.R).tolist(),
            "p": list(shape.placement.p),
        }
        for shape in cell.model.collision_shapes
    ]
    about = {"lines": made.lines, "shapes": shapes, "still": still}
    placed_as = {"points": points, "rotations": rotations}
    return {"about": about, "yaw": cell.yaw, "size": cell.size, **placed_as}


def _path(corners: list[list[float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"


def _shades(hues: tuple[str, str]) -> str:
    """Rules for the colours of faces, between those in light and in shade."""
    lit, shaded = (np.array([int(hue[k : k + 2], 16) for k in (1, 3, 5)]) for hue in hues)
    rules = []
    for n in range(SHADES):
        part = n / (SHADES - 1)
        r, g, b = np.rint(part * lit + (1 - part) * shaded).astype(int)
        rules.append(f".s{n} {{ fill: #{r:02x}{g:02x}{b:02x}; stroke: #{r:02x}{g:02x}{b:02x} }}")
    return "\n".join(rules)
