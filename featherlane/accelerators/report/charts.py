"""Charts: the Pareto front of designs, and throughput below the roof of words."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite
from typing import NamedTuple

from featherlane.accelerators.report.svg import Log, line, number, picture, tag, text

WIDTH, HEIGHT = 380.0, 290.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 12.0, 42.0
SHAPES = ("circle", "square", "diamond", "triangle", "cross")


class Mark(NamedTuple):
    """A design in a chart. form: its format; best: whether it is on the front; own: whether it is
    the one of the page.
    """

    interval: int
    latency: int
    dsp: float  # percent of the device
    error: float  # of the largest result
    form: str
    algorithm: str
    bits: int  # of a state and its results
    best: bool = False
    is_this: bool = False

    @property
    def title(self) -> str:
        return (
            f"interval {self.interval}, {self.dsp:.1f} % of the DSPs, error {self.error:.1e}, "
            f"latency {self.latency} cycles, {self.form}, {self.algorithm}"
        )


def front(marks: Sequence[Mark]) -> str:
    """DSPs over the interval, and DSPs over the error, with the same marks."""
    forms = list(dict.fromkeys(mark.form for mark in marks))
    keys = [tag("li", _svg_mark(n), escape(form)) for n, form in enumerate(forms)]
    legend = tag("ul", *keys, class_="legend")
    charts = [
        _front(marks, forms, "interval", "interval, cycles"),
        _front(
            [m for m in marks if isfinite(m.error)],
            forms,
            "error",
            "largest error, of the largest result",
        ),
        _front(marks, forms, "latency", "latency, cycles"),
    ]
    return legend + tag("div", *charts, class_="charts")


def _svg_mark(shape: int) -> str:
    mark = _mark(shape, 7, 7, "mark best", "")
    return tag("svg", mark, width=14, height=14, viewBox="0 0 14 14", aria_hidden="true")


def _front(marks: Sequence[Mark], forms: Sequence[str], across: str, words: str) -> str:
    """The chart of designs: DSPs over another figure, on logarithmic axes."""
    values = [float(getattr(mark, across)) for mark in marks]
    shown = sorted({*values}) if across == "interval" else None
    x = Log([v or 1e-12 for v in values], LEFT, WIDTH - RIGHT, shown)
    y = Log([max(mark.dsp, 1e-3) for mark in marks], HEIGHT - BOTTOM, TOP)
    parts = _axes(x, y, words, "DSPs, % of the device")
    order = sorted(
        zip(marks, values, strict=True), key=lambda pair: (pair[0].is_this, pair[0].best)
    )
    for mark, value in order:
        kind = "mark own" if mark.is_this else "mark best" if mark.best else "mark"
        place = x(value or 1e-12), y(max(mark.dsp, 1e-3))
        parts.append(_mark(forms.index(mark.form), *place, kind, mark.title))
    return picture(WIDTH, HEIGHT, parts, f"DSPs over {words}")


def _mark(shape: int, x: float, y: float, kind: str, label: str) -> str:
    """The mark of a design, whose shape says its format."""
    title = tag("title", escape(label)) if label else ""
    match SHAPES[shape % len(SHAPES)]:
        case "circle":
            return tag("circle", title, cx=x, cy=y, r=4.5, class_=kind)
        case "square":
            return tag("rect", title, x=x - 4, y=y - 4, width=8, height=8, class_=kind)
        case "diamond":
            corners = [(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)]
        case "triangle":
            corners = [(x, y - 5.5), (x + 5.2, y + 4), (x - 5.2, y + 4)]
        case _:
            corners = [(x - 5, y - 2), (x + 5, y - 2), (x + 5, y + 2), (x - 5, y + 2)]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return tag("polygon", title, points=points, class_=kind)


def _axes(x: Log, y: Log, across: str, up: str) -> list[str]:
    """The axes of a chart with grid, ticks and labels."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = list[str]()
    for value in x.ticks:
        parts.append(line([(x(value), TOP), (x(value), bottom)], "grid"))
        parts.append(text(number(value), x(value), bottom + 16, "tick", "middle"))
    for value in y.ticks:
        parts.append(line([(LEFT, y(value)), (right, y(value))], "grid"))
        parts.append(text(number(value), LEFT - 6, y(value) + 4, "tick", "end"))
    parts.append(line([(LEFT, TOP), (LEFT, bottom), (right, bottom)], "axis"))
    parts.append(text(across, (LEFT + right) / 2, HEIGHT - 8, "label", "middle"))
    turned = f"translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)"
    parts.append(tag("g", text(up, 0, 0, "label", "middle"), transform=turned))
    return parts


def roof(interval: int, clock: float, roofs: Sequence[tuple[str, float]]) -> str:
    """Tasks a second over the interval, below the rates at which words pass. clock: nanoseconds a
    cycle; roofs: what packs the words, and tasks a second.
    """
    intervals = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, 32, interval})
    rate = lambda n: 1e3 / (clock * n)
    roofs = [(name, value / 1e6) for name, value in roofs]
    limits = [value for _, value in roofs]
    x = Log(intervals, LEFT, WIDTH - RIGHT, [1, 2, 4, 8, 16, 32])
    y = Log([rate(intervals[-1]), rate(1), *limits], HEIGHT - BOTTOM, TOP)
    parts = _axes(x, y, "interval, cycles", "million tasks a second")
    parts.append(line([(x(n), y(rate(n))) for n in intervals], "curve"))
    for n, (name, value) in enumerate(sorted(roofs, key=lambda pair: pair[1])):
        parts.append(line([(LEFT, y(value)), (WIDTH - RIGHT, y(value))], f"roof roof{n}"))
        words = f"{name}: {value:.3g} M/s"
        high = y(value) - 6 if n else y(value) + 14
        parts.append(text(words, WIDTH - RIGHT - 4, high, "label", "end"))
    label = f"this design: {rate(interval):.3g} M/s"
    parts.append(_mark(0, x(interval), y(rate(interval)), "mark own", label))
    return picture(WIDTH, HEIGHT, parts, "Tasks a second over the interval, and the roofs of words")
