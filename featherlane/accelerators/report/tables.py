"""Tables: utilisation of units, what modules need, and errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from featherlane.accelerators.report.boxes import Box
from featherlane.accelerators.report.svg import number, tag
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.devices import Device
from featherlane.backends.fpga.resources import NAMES, Resources


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    sortable: bool = False,
    foot: Sequence[Any] = (),
    class_: str | None = None,
) -> str:
    """A table: cells are words, numbers, or pairs of a number and the words that show it."""
    first, *others = head
    names = [tag("th", escape(first), scope="col")]
    rows = [*rows]
    for n, name in enumerate(others, 1):
        is_number = rows and not isinstance(rows[0][n], str)
        class_of = "number" if is_number else None
        names.append(tag("th", escape(name), scope="col", class_=class_of))
    body = [tag("tr", *map(_cell, row)) for row in rows]
    end = tag("tfoot", tag("tr", *map(_cell, foot))) if foot else ""
    class_ = "sortable" if sortable else class_
    inside = tag("thead", tag("tr", *names)), tag("tbody", *body), end
    return tag("div", tag("table", *inside, class_=class_), class_="scroll")


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        key, shown = value
        return tag("td", shown, data_value=key, class_="number")
    if isinstance(value, int | float):
        shown = f"{value:,}" if isinstance(value, int) else number(value)
        return tag("td", shown, data_value=value, class_="number")
    return tag("td", escape(str(value)))


def share(part: float) -> tuple[float, str]:
    """A share from 0 to 1 as a bar and as percent."""
    bar = tag("i", tag("b", style=f"width:{100 * min(part, 1):.1f}%"), class_="bar")
    return part, f"{bar}{100 * part:.1f} %"


def utilisation(boxes: Sequence[Box], interval: int) -> str:
    """The operations that units of each kind start in a period, as a share of its cycles."""
    units, busy = defaultdict[str, int](int), defaultdict[str, int](int)
    for box in boxes:
        for unit in box.units:
            units[unit.kind] += 1
            busy[unit.kind] += len({slot.cycle % interval for slot in unit.slots})
    rows = [
        (_words(kind), n, busy[kind], share(busy[kind] / (n * interval)))
        for kind, n in sorted(units.items(), key=lambda pair: -pair[1])
    ]
    return table(["units", "how many", "operations a task", "cycles at work"], rows)


def by_module(boxes: Sequence[Box], interval: int) -> str:
    """A table of how busy the units of each module are."""
    rows = []
    for box in boxes:
        if box.units:
            busy = sum(len({slot.cycle % interval for slot in unit.slots}) for unit in box.units)
            span = f"{box.first} to {box.last}" if box.work else ""
            part = share(busy / (len(box.units) * interval))
            rows.append((box.name, len(box.units), busy, (box.first, span), part))
    head = ["module", "shared units", "operations a task", "cycles of a task", "cycles at work"]
    return table(head, rows, sortable=True)


def resources(boxes: Sequence[Box], cost: DesignCost) -> str:
    """The resources of each module, the largest first, and its share of the device."""
    there = _there(cost.device)
    rows = sorted(((box.name, box.needs) for box in boxes), key=lambda row: _most(row[1], there))
    return _resources(rows[::-1], cost, there)


def kinds(cost: DesignCost) -> str:
    """The resources of units of each kind, multiplexers, waiting results and control."""
    there = _there(cost.device)
    named = ((_words(kind), needs) for kind, needs in cost.kinds.items())
    return _resources(sorted(named, key=lambda row: -_most(row[1], there)), cost, there)


def _words(kind: str) -> str:
    """The name of units of a kind."""
    return "sine and cosine" if kind == "sine_cosine" else kind.replace("_", " ")


def _there(device: Device) -> Resources:
    """The resources of a device."""
    return Resources(device.dsps, device.luts, device.ffs, device.blocks, device.large)


def _most(needs: Resources, there: Resources) -> float:
    return max(need / count for need, count in zip(needs, there, strict=True) if count)


def _resources(rows: Sequence[tuple[str, Resources]], cost: DesignCost, there: Resources) -> str:
    """The table of what modules need, with their share of the device."""

    def cells(name: str, x: Resources) -> tuple[Any, ...]:
        counts = [(x[n], f"{x[n]:,.0f}") for n in columns]
        return name, *counts, share(_most(x, there))

    columns = [n for n, count in enumerate(cost.total) if n < 3 or count]
    head = ["", *(NAMES[n] for n in columns), f"of {cost.device.name}, at most"]
    body = [cells(name, needs) for name, needs in rows]
    return table(head, body, sortable=True, foot=cells("all", cost.total)) + tag(
        "p", f"Together {escape(cost.percentages(1))}."
    )


def errors(facts: Mapping[str, Any]) -> str:
    """Errors of sampled states beside bounds that are proved for all states."""
    figures = "largest_result", "median_error", "largest_error", "proved_bound"
    rows = []
    for function in facts["functions"]:
        for result, figures_of in facts["errors"][function]["results"].items():
            shown = [figures_of[name] for name in figures]
            cells = ((x or 0.0, "none" if x is None else number(x)) for x in shown)
            rows.append((function.replace("_", " "), result, *cells))
    return table(["function", "result", *(name.replace("_", " ") for name in figures)], rows)
