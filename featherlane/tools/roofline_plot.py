"""Draws the roofline of a robot with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import atan2, degrees
from pathlib import Path
from typing import Any

from featherlane.tools.figures import BLUE, FAINT, INK, ORANGE, STYLE
from featherlane.tools.roofline import Bandwidth, Peaks, Roofline, RooflinePoint
from featherlane.tools.timing import SHORT, in_words

KINDS = (".svg", ".png", ".pdf")
COMPUTE, BYTES = BLUE, ORANGE
APART = 0.125  # the least distance of neighbouring labels, as a part of a panel's width
CLEAR = 1.3  # a second compute roof is drawn if it is this many times the first
MARGIN = 2.5  # the factor by which the axes extend beyond the points and roofs


def writable(file: str) -> Path:
    """Returns the path of a figure. Raises ValueError or RuntimeError if it cannot be drawn."""
    path = Path(file)
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"is {file!r}; wanted a name that ends in {', '.join(KINDS)}")
    if not path.parent.is_dir():
        raise ValueError(f"is {file!r}; there is no folder {str(path.parent)!r}")
    _pyplot()
    return path


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError as error:
        needed = "plots need it, pip install 'featherlane[plot]' brings it"
        raise RuntimeError(f"matplotlib cannot be imported ({error}): {needed}") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def plot(roofline: Roofline, title: str, path: Path) -> None:
    """Writes the figure, with a panel for each dtype. title: the robot and the machine."""
    plt = _pyplot()
    with plt.rc_context(STYLE):
        figure = draw(roofline, title)
        kind = {"facecolor": "white"} if path.suffix.lower() == ".png" else {"transparent": True}
        try:
            figure.savefig(path, dpi=150, metadata={}, **kind)
        except OSError as error:
            raise ValueError(f"the plot cannot be written to {path}: {error}") from None
        finally:
            plt.close(figure)


def draw(roofline: Roofline, title: str) -> Any:
    """The figure of a roofline, as matplotlib has it."""
    plt = _pyplot()
    dtypes = list(dict.fromkeys(p.dtype for p in roofline.points))
    width, height = 5.6 * len(dtypes) + 0.6, 5.4
    size = {"figsize": (width, height), "sharey": True, "squeeze": False}
    figure, panels = plt.subplots(1, len(dtypes), **size)
    sides = {"left": 0.75 / width, "right": 1 - 0.15 / width, "wspace": 0.09}
    figure.subplots_adjust(**sides, bottom=1.15 / height, top=1 - 0.95 / height)
    counted = [p for p in roofline.points if p.rate is not None]
    across, up = _limits(counted, roofline.peaks)
    for axes, dtype in zip(panels[0], dtypes, strict=True):
        axes.set(xscale="log", yscale="log", xlim=across, ylim=up)
        peaks = [p for p in roofline.peaks if p.dtype == dtype]
        _panel(axes, [p for p in counted if p.dtype == dtype], peaks)
    panels[0][0].set_ylabel("billion slots per second", color=INK)
    edge = {"x": 0.15 / width, "wrap": True}  # a panel alone is narrower than the words
    figure.text(y=1 - 0.15 / height, s=title, fontsize=12, va="top", **edge)
    figure.text(y=0.12 / height, s=_caption(roofline), fontsize=9, va="bottom", **edge)
    return figure


def _caption(roofline: Roofline) -> str:
    several = max(p.threads for p in roofline.points)
    hollow = f"Hollow: on {several} threads. " if several > 1 else ""
    lines = "Lines go up to each function's roof, percentages are of it."
    return f"Full: on one thread. {hollow}{lines}"


def _limits(
    points: Sequence[RooflinePoint], peaks: Sequence[Peaks]
) -> tuple[list[float], list[float]]:
    """The limits of both axes: around the points and the ridges of the memory roofs."""
    xs = [p.intensity for p in points if p.intensity] or [1.0]
    xs += [p.fma_per_second / p.memory.store for p in peaks]
    ys = [p.rate / 1e9 for p in points if p.rate] or [p.fma_per_second / 1e9 for p in peaks]
    top = max(p.fma_per_second for p in peaks) / 1e9
    return [min(xs) / MARGIN, max(xs) * MARGIN], [min(ys) / MARGIN**2, top * 1.7]


def _panel(axes: Any, points: Sequence[RooflinePoint], peaks: Sequence[Peaks]) -> None:
    axes.set_title(peaks[0].dtype, fontsize=11, loc="left", pad=8)
    axes.set_xlabel("slots per byte of inputs and outputs", color=INK)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda x, _: f"{x:g}")
        axis.set_minor_formatter("")
    axes.grid(True, which="major", color=FAINT, alpha=0.25, linewidth=0.8)
    axes.tick_params(which="both", colors=INK, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for p in peaks:
        if p is peaks[0] or p.fma_per_second > CLEAR * peaks[0].fma_per_second:
            _compute_roof(axes, p, p is peaks[0])
    for name, b in (("caches", peaks[0].caches), ("memory", peaks[0].memory)):
        _memory_roof(axes, name, peaks[0].fma_per_second / 1e9, b)
    _marks(axes, points)
    _labels(axes, [p for p in points if p.threads == peaks[0].threads])


def _compute_roof(axes: Any, p: Peaks, first: bool) -> None:
    high, right = p.fma_per_second / 1e9, axes.get_xlim()[1]
    start = p.fma_per_second / p.caches.read
    axes.plot([start, right], [high, high], color=COMPUTE, lw=2 if first else 1.2, alpha=0.9)
    label = f"{high:.3g} G multiply-adds/s, {in_words(p.threads)}"
    axes.text(right, high * 1.05, label, color=COMPUTE, ha="right", va="bottom", fontsize=9)


def _memory_roof(axes: Any, name: str, ridge: float, b: Bandwidth) -> None:
    """Draws a band between the slower and the faster of reading and writing, up to the ridge."""
    left, (low, high) = axes.get_xlim()[0], sorted((b.read / 1e9, b.store / 1e9))
    xs = [left, ridge / high, ridge / low]
    upper = [left * high, ridge, ridge]
    lower = [left * low, ridge * low / high, ridge]
    axes.fill_between(xs, lower, upper, color=BYTES, alpha=0.3, lw=0)
    axes.plot(xs[:2], upper[:2], color=BYTES, lw=1.6)
    rounded = dict.fromkeys((f"{low:.0f}", f"{high:.0f}"))
    start, further = axes.transData.transform([(left, left * high), (2 * left, 2 * left * high)])
    across, up = further - start
    label, at = f"{name}: {' to '.join(rounded)} GB/s", (left * 1.1, left * 1.1 * high)
    look = {"color": BYTES, "fontsize": 9, "xytext": (0, 4), "textcoords": "offset points"}
    axes.annotate(label, at, rotation=degrees(atan2(up, across)), rotation_mode="anchor", **look)


def _place(p: RooflinePoint) -> tuple[float, float]:
    return p.intensity or 0.0, (p.rate or 0.0) / 1e9


def _marks(axes: Any, points: Sequence[RooflinePoint]) -> None:
    """Draws the points, full on one thread and hollow on several, with a line up to their roof."""
    for p in points:
        full, (x, y) = p.threads == 1, _place(p)
        if full:
            axes.plot([x, x], [y, (p.roof or 0.0) / 1e9], color=FAINT, lw=0.9)
        look = {"color": INK, "ms": 6, "mfc": INK if full else "none", "ls": "none", "zorder": 3}
        axes.plot([x], [y], "o", **look)


def _labels(axes: Any, points: Sequence[RooflinePoint]) -> None:
    """Writes names and larger shares in a row below the points, with a line to each point."""
    if not points:
        return
    points = sorted(points, key=_place)
    to_axes = axes.transData + axes.transAxes.inverted()
    at = [to_axes.transform(_place(p)) for p in points]
    for p, (x, y), place in zip(points, at, _spread([x for x, _ in at]), strict=True):
        share = max(p.of_peak or 0.0, p.of_bandwidth)
        axes.plot([place, x], [0.115, y - 0.02], color=FAINT, lw=0.6, transform=axes.transAxes)
        label = f"{SHORT[p.function]}\n{share:.0%}"
        place_of = {"transform": axes.transAxes, "ha": "center", "va": "top", "color": INK}
        axes.text(place, 0.105, label, fontsize=9, **place_of)


def _spread(xs: Sequence[float]) -> list[float]:
    """Rising numbers between 0 and 1, moved so that neighbours are at least APART."""
    places = list(xs)
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + APART)
    shift = max(0.0, (places[-1] + places[0] - xs[-1] - xs[0]) / 2)
    places = [x - shift for x in places]
    highest = 1 - APART / 2
    for k in reversed(range(len(places))):
        places[k] = min(places[k], highest)
        highest = places[k] - APART
    return places
