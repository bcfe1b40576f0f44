"""Elements of SVG and HTML as text, and scales for charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10


def tag(name: str, *inside: str, **attributes: object) -> str:
    """An element. Attributes that are None are left out; class_ is class, and _ stands for -."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{named}>{''.join(inside)}</{name}>"


def _shown(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(words: str, x: float, y: float, class_: str | None = None, anchor: str = "start") -> str:
    """Words at a place; anchor: "start", "middle" or "end"."""
    return tag("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def rect(
    x: float, y: float, width: float, height: float, class_: str, title: str = "", **more: object
) -> str:
    """A box, with words that a pointer on it shows."""
    inside = tag("title", escape(title)) if title else ""
    size = {"x": x, "y": y, "width": width, "height": height}
    return tag("rect", inside, **size, class_=class_, **more)


def line(points: Iterable[tuple[float, float]], class_: str) -> str:
    """A line through points."""
    places = " ".join(f"{_shown(float(x))},{_shown(float(y))}" for x, y in points)
    return tag("polyline", points=places, class_=class_)


def picture(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """A drawing that is as wide as its place, but not smaller than it is legible."""
    size = f"0 0 {_shown(float(width))} {_shown(float(height))}"
    attributes_of = {
        "viewBox": size,
        "width": width,
        "height": height,
        "role": "img",
        "aria_label": label,
    }
    return tag("svg", *parts, **attributes_of)


FIFTHS = [1 + n / 5 for n in range(45)]


class Log:
    """A logarithmic scale from numbers to places, over whole decades or a part of them."""

    def __init__(
        self, numbers: Iterable[float], low: float, high: float, ticks: list[float] | None = None
    ) -> None:
        """numbers: what it holds; ticks: of the axis, by default round numbers."""
        logs = [log10(x) for x in numbers]
        room = 0.06 * max(max(logs) - min(logs), 0.5)
        self.first, self.last = min(logs) - room, max(logs) + room
        self.low, self.high, self._ticks = low, high, ticks

    def __call__(self, x: float) -> float:
        part = (log10(x) - self.first) / (self.last - self.first)
        return self.low + part * (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Powers of ten within it, and products of these where they are few."""
        if self._ticks is not None:
            return self._ticks
        for steps in ((1,), (1, 3), (1, 2, 5), range(1, 10), FIFTHS):
            decades = range(floor(self.first), ceil(self.last) + 1)
            numbers = [m * 10.0**n for n in decades for m in steps]
            kept = [x for x in numbers if self.first <= log10(x) <= self.last]
            if len(kept) >= 3:
                break
        return kept


def number(x: float) -> str:
    """A number as people write it: 1,234 or 0.12 or 3.4e-06."""
    if x == 0:
        return "0"
    if abs(x) >= 1000:
        return f"{x:,.0f}"
    if abs(x) >= 1e-3:
        return f"{x:.3g}"
    return f"{x:.1e}".replace(".0e", "e").replace("e-0", "e-")
