"""Robots of the page in the browser, as it draws them

Writes docs/browser.svg, and browser_narrow.svg for narrow screens. Needs node, which runs the
script of the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from drawn_robots import Cell, svg

import featherlane as fl

LEG = [0.0, 0.8, -1.5]  # rad, of Go2
HYQ = [-0.2, 0.75, -1.5, -0.2, -0.75, 1.5]  # rad, of a fore and a hind leg
# name, configuration of the joints, side of the cube that fills the cell, m
ROBOTS = (
    ("iiwa14", [0.5, 0.7, 0, -1.2, 0, 0.9, 0], 1.3),
    ("panda", [0.4, 0.2, 0, -1.9, 0, 2.0, 0.8, 0.04], 1.2),
    ("so101", [0.4, -0.6, 0.7, 0.5, 0, 0.3], 0.5),
    ("go2", LEG * 4, 0.75),
    ("hyq", HYQ * 2, 1.25),
    ("atlas", None, 2.0),
)
SIDE = 220  # pixels


def main() -> None:
    cells = []
    for name, q, size in ROBOTS:
        model = fl.load(name)
        bent = 0.1 * (-1.0) ** np.arange(model.nq) if q is None else np.array(q)
        cells.append(Cell(model, bent, name, size))
    title = (__doc__ or "").partition("\n")[0]
    for columns, end in ((3, ".svg"), (2, "_narrow.svg")):
        text = svg(cells, columns, SIDE if columns == 3 else 178, title)
        Path(__file__).with_name(f"browser{end}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
