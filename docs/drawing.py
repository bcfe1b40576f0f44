"""The main function of the scripts that draw the figures of docs/."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from featherlane.tools.figures import STYLE, save


def main(draw: Callable[[], Figure], script: str, told: str | None) -> None:
    """Writes NAME.svg beside draw_NAME.py, with the first line of its documentation as the title;
    --png FOLDER also writes it on white and dark.
    """
    options = argparse.ArgumentParser(description=told)
    options.add_argument("--png", type=Path, metavar="FOLDER")
    args = options.parse_args()
    path = Path(script)
    name = path.with_name(path.stem.removeprefix("draw_") + ".svg")
    with mpl.rc_context(STYLE):
        save(draw(), name, (told or name.stem).partition("\n")[0], png=args.png)
