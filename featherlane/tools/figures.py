"""The style of all figures: colours of medium lightness, readable on a white and on a dark page, no
background, and text as text, which a search finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

INK, FAINT = "#75808a", "#8b949e"  # words and lines; grids and frames
BLUE, ORANGE, GREEN, PURPLE = "#2f81c7", "#d9722e", "#2f9e6e", "#8f6ccf"
PINK, BROWN, RED, YELLOW = "#cf5a8a", "#9a7b5f", "#c8553d", "#c2a23a"
HUES = (BLUE, ORANGE, GREEN, PURPLE, PINK, BROWN, RED, YELLOW)
NARROW = 4.7  # inches, in which letters of 9 points are readable on a screen of 388 pixels
COLUMN = 24  # letters of a legend's words of which two columns fit in that width
BELOW = "outside lower center"  # where a legend of all panels stands in a constrained layout
GAP = 0.12  # inches, between a figure and the note below it
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


def stack(figure: Any, height: float) -> None:
    """Puts the panels of a figure of matplotlib below one another, each of this height in inches,
    for narrow screens, and legends of the whole figure below them. In a table of panels each takes
    the words of its row and of its column.
    """
    from matplotlib.gridspec import GridSpec

    panels = figure.axes
    rows, columns = zip(*map(_cell, panels), strict=True)
    labels = dict(zip(reversed(rows), (x.get_ylabel() for x in reversed(panels)), strict=True))
    titles = dict(zip(reversed(columns), (x.get_title() for x in reversed(panels)), strict=True))
    for axes, row, column in zip(panels, rows, columns, strict=True):
        if min(len({*rows}), len({*columns})) > 1:
            axes.set_ylabel(axes.get_ylabel() or labels[row])
            axes.set_title(axes.get_title() or titles[column])
        axes.tick_params(labelleft=True, labelbottom=True)
    figure.set_layout_engine("constrained")  # which leaves room for legends outside of panels
    places = GridSpec(len(panels), 1, figure=figure)
    for n, axes in enumerate(panels):
        axes.set_subplotspec(places[n])
    for legend in tuple(figure.legends):
        words = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        beside = 2 if max(map(len, words)) <= COLUMN else 1
        figure.legend(legend.legend_handles, words, loc=BELOW, ncols=beside, columnspacing=1)
    figure.set_size_inches(NARROW, height * len(panels))
    if figure.get_suptitle():
        figure.suptitle("\n".join(wrap(figure.get_suptitle(), 50)), fontsize=10)
    if figure.get_supxlabel():
        figure.supxlabel("\n".join(wrap(figure.get_supxlabel(), 60)), fontsize=9)


def _cell(axes: Any) -> tuple[int, int]:
    """The row and the column of a panel."""
    place = axes.get_subplotspec()
    return int(place.rowspan.start), int(place.colspan.start)


def save(
    figure: Any,
    path: str | Path,
    title: str,
    note: str = "",
    png: Path | None = None,
    narrow: float | None = None,
) -> None:
    """Writes a figure of matplotlib without background; an SVG has the title inside, for readers
    who cannot see the figure. note: a line below it, such as the machine. png: a folder
    for pictures on a white and on a dark page. narrow: also writes NAME_narrow, whose panels are
    below one another, each of this height in inches.
    """
    path = Path(path)
    if narrow is not None:
        save(figure, path, title, note, png)
        stack(figure, narrow)
        note = "\n".join(wrap(note, 70))
        path = path.with_stem(f"{path.stem}_narrow")
    with _noted(figure, note) as kind:
        metadata = {"Title": title, "Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, transparent=True, metadata=metadata, **kind)
        if png is not None:
            figure.savefig(png / f"{path.stem}.png", dpi=110, facecolor=WHITE, **kind)
            figure.savefig(png / f"{path.stem}_dark.png", dpi=110, facecolor=DARK, **kind)


@contextmanager
def _noted(figure: Any, note: str) -> Iterator[dict[str, Any]]:
    """A figure that has a note below it for a while; yields how it is saved with that. The file is
    larger than the figure by the note: legends that stand at its edge stay where they are.
    """
    if not note:
        yield {}
        return
    figure.draw_without_rendering()  # lays it out
    layout, legends = figure.get_layout_engine(), figure.legends
    at_edge = [x for x in legends if x.get_bbox_to_anchor() is figure.bbox]
    lowest = (min(0.0, figure.get_tightbbox().y0) - GAP) / figure.get_figheight()
    figure.set_layout_engine("none")
    for legend in at_edge:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
    line = figure.text(0.01, lowest, note, fontsize=8, va="top")
    yield {"bbox_inches": "tight", "pad_inches": 0.05}
    line.remove()
    for legend in at_edge:
        legend.set_bbox_to_anchor(None)
    figure.set_layout_engine(layout)
