"""The style of all figures: colours of medium lightness, readable on a white and on a dark page, no
background, and text as text, which a search finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

INK, FAINT = "#75808a", "#8b949e"  # words and lines; grids and frames
BLUE, ORANGE, GREEN, PURPLE = "#2f81c7", "#d9722e", "#2f9e6e", "#8f6ccf"
PINK, BROWN, RED, YELLOW = "#cf5a8a", "#9a7b5f", "#c8553d", "#c2a23a"
HUES = (BLUE, ORANGE, GREEN, PURPLE, PINK, BROWN, RED, YELLOW)
WHITE, DARK = "white", "#0d1117"  # the pages that figures are looked at on

# For matplotlib.rc_context or rcParams.update; sizes in points
STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",
    "svg.hashsalt": "featherlane",  # the same figure has the same text
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.prop_cycle": f"cycler('color', {[hue[1:] for hue in HUES]})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": FAINT,
    "legend.frameon": False,
}


def pyplot(size: float = 10) -> Any:
    """Returns matplotlib.pyplot, without windows and with this style; size: of words, in points."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style: Any = STYLE | {"font.size": size}
    plt.rcParams.update(style)
    return plt


def machine(facts: Mapping[str, object]) -> str:
    """The machine and the date of a measurement, in a line, from the facts that head its CSV."""
    named = {"cpu": "{}", "vector_bits": "{}-bit vectors", "date": "{}", "commit": "commit {}"}
    parts = [text.format(facts[name]) for name, text in named.items() if name in facts]
    return f"Measured on {', '.join(parts)}"


def save(
    figure: Any, path: str | Path, title: str, note: str = "", png: Path | None = None
) -> None:
    """Writes a figure of matplotlib without background; an SVG has the title inside, for readers
    who cannot see the figure. note: a line below it, such as the machine. png: a folder
    for pictures on a white and on a dark page.
    """
    path = Path(path)
    kind: dict[str, Any] = {}
    if note:
        figure.draw_without_rendering()  # lays it out
        lowest = min(0.0, figure.get_tightbbox().y0 / figure.get_figheight())
        figure.text(0.01, lowest - 0.02, note, fontsize=8, va="top")
        kind = {"bbox_inches": "tight", "pad_inches": 0.05}
    metadata = {"Title": title, "Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, transparent=True, metadata=metadata, **kind)
    if png is not None:
        figure.savefig(png / f"{path.stem}.png", dpi=110, facecolor=WHITE, **kind)
        figure.savefig(png / f"{path.stem}_dark.png", dpi=110, facecolor=DARK, **kind)
