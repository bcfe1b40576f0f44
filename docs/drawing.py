"""The main function of the scripts that draw the figures of docs/."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from featherlane.tools.figures import STYLE, save


def main(
    draw: Callable[[], Figure],
    script: str,
    told: str | None,
    narrow: Callable[[], Figure] | float | None = None,
) -> None:
    """Writes NAME.svg beside draw_NAME.py, with the first line of its documentation as the title,
    and NAME_narrow.svg, for narrow screens, if there is a drawing for them, or a height in inches
    for panels below one another; --png FOLDER also writes them on white and dark.
    """
    options = argparse.ArgumentParser(description=told)
    options.add_argument("--png", type=Path, metavar="FOLDER")
    args = options.parse_args()
    path = Path(script)
    name = path.stem.removeprefix("draw_")
    title = (told or name).partition("\n")[0]
    with mpl.rc_context(STYLE):
        height = None if callable(narrow) else narrow
        save(draw(), path.with_name(f"{name}.svg"), title, png=args.png, narrow=height)
        if callable(narrow):
            save(narrow(), path.with_name(f"{name}_narrow.svg"), title, png=args.png)
