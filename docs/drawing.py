"""The main function of the scripts that draw the figures of docs/."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure


def main(draw: Callable[[], Figure], script: str, told: str | None) -> None:
    """Writes NAME.svg beside draw_NAME.py; --png FILE also writes it on white and dark."""
    options = argparse.ArgumentParser(description=told)
    options.add_argument("--png", type=Path)
    args = options.parse_args()
    figure, path = draw(), Path(script)
    name = path.with_name(path.stem.removeprefix("draw_") + ".svg")
    figure.savefig(name, transparent=True, metadata={"Date": None})
    if args.png:
        figure.savefig(args.png, dpi=110, facecolor="white")
        figure.savefig(args.png.with_stem(args.png.stem + "_dark"), dpi=110, facecolor="#0d1117")
