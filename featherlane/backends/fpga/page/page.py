"""The page of a design: arrays, timeline, utilisation, resources, errors, designs around it, and
the roof of words, in one HTML file without scripts or styles from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from featherlane.backends.fpga.cost import Cost
from featherlane.backends.fpga.page import charts, organisation, tables, timeline
from featherlane.backends.fpga.page.boxes import Box, boxes
from featherlane.backends.fpga.page.svg import number, tag
from featherlane.backends.fpga.verilog import Design

FOLDER = files("featherlane.backends.fpga.page")
WORD = 4  # bytes


class Robot(NamedTuple):
    """What the drawings need of a robot. parents: of each joint, -1 of those at the ground."""

    name: str
    joints: Sequence[str]
    parents: Sequence[int]


def page(
    design: Design,
    cost: Cost,
    robot: Robot,
    facts: Mapping[str, Any],
    marks: Sequence[charts.Mark],
    link: float,
) -> str:
    """The page as text. facts: the report of the design as data; marks: designs of the same
    function, none if they were not looked at; link: bytes a nanosecond of the memory's interface.
    """
    found = boxes(design, cost)
    title = f"{robot.name}: {facts['function'].replace('_', ' ')}"
    parts = [
        _head(title, facts, cost),
        _organisation(found, robot),
        _timeline(found, design),
        _utilisation(found, design),
        _section(
            "Resources", tables.kinds(cost), _folded("Modules", tables.resources(found, cost))
        ),
        _errors(facts),
        _front(marks, facts),
        _roof(design, link),
        _choices(facts),
    ]
    data = json.dumps({"interval": design.interval, "units": _units(found)}, separators=(",", ":"))
    return _document(title, "".join(parts), data.replace("</", "<\\/"))


def _document(title: str, body: str, data: str) -> str:
    style, script = (
        (FOLDER / name).read_text(encoding="utf-8") for name in ("style.css", "page.js")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'{body}\n</main>\n<script type="application/json" id="units">{data}</script>\n'
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _units(found: Sequence[Box]) -> dict[str, list[Any]]:
    return {
        box.name: [[unit.kind, [[*slot] for slot in unit.slots]] for unit in box.units]
        for box in found
        if box.units
    }


def _section(title: str, *inside: str) -> str:
    return tag("section", tag("h2", escape(title)), *inside)


def _folded(title: str, inside: str) -> str:
    return tag("details", tag("summary", escape(title)), inside)


def _words(words: str) -> str:
    return tag("p", escape(words))


def _head(title: str, facts: Mapping[str, Any], cost: Cost) -> str:
    needs = cost.shares
    worst = max((x for x in facts["largest_error"].values() if x is not None), default=None)
    tiles = [
        ("interval", f"{facts['interval']}", f"cycles of {facts['clock_ns']:g} ns"),
        ("latency", f"{facts['latency']}", f"cycles, {facts['latency_us']:.3g} µs"),
        ("tasks", f"{facts['states_per_second'] / 1e6:.3g}", "million a second"),
        ("DSPs", f"{needs.dsps:.1f} %", f"{facts['needs']['dsps']:,} of {cost.device.dsps:,}"),
        ("LUTs", f"{needs.luts:.1f} %", "estimated"),
        ("flip-flops", f"{needs.ffs:.1f} %", "estimated"),
        (
            "largest error",
            "none" if worst is None else number(worst),
            f"of {facts['states_of_errors']:,} random states",
        ),
    ]
    shown = [
        tag("div", tag("span", name), tag("strong", escape(value)), tag("span", escape(note)))
        for name, value, note in tiles
    ]
    choices = f"{facts['format']} on {facts['device']}"
    if facts.get("algorithm"):
        choices += f", algorithm {facts['algorithm']}"
    return tag(
        "header",
        tag("h1", escape(title)),
        _words(f"{choices}. {facts['modules']} modules. Delays: {facts['delays']}, a model."),
        tag("div", *shown, class_="tiles"),
    )


def _organisation(found: Sequence[Box], robot: Robot) -> str:
    return _section(
        "Arrays and modules",
        _words(
            "A row for each limb, a column for each joint, and in each joint the steps of the "
            "algorithm; numbers are DSPs. Choose a step to see its units, and from where it reads."
        ),
        organisation.legend(found),
        tag("div", organisation.drawn(found, robot.parents, robot.joints), class_="scroll"),
        '<div id="chosen" hidden></div>',
    )


def _timeline(found: Sequence[Box], design: Design) -> str:
    return _section(
        "Timeline",
        _words(
            f"A new task enters every {design.interval} cycles and leaves after {design.latency}. "
            "Bars are the time that a module works on a task, darker where more operations start; "
            "a colour is a task, and vertical lines are where tasks end."
        ),
        timeline.drawn(found, design.interval, design.latency),
    )


def _utilisation(found: Sequence[Box], design: Design) -> str:
    return _section(
        "Utilisation",
        _words(
            f"Of the {design.interval} cycles of a period, those in which a shared unit starts an "
            "operation."
        ),
        tables.utilisation(found, design.interval),
        _folded("Modules", tables.by_module(found, design.interval)),
    )


def _errors(facts: Mapping[str, Any]) -> str:
    happened = {
        "overflows of signals": facts["overflows_in_them"],
        "clamped signals": facts["clamped_in_them"],
        "saturated entries of inputs": facts["saturated_in_them"],
        "states without a result": facts["lost_of_them"],
    }
    counts = ", ".join(f"{n:,} {name}" for name, n in happened.items())
    return _section(
        "Errors",
        _words(
            f"Differences from float64 over {facts['states_of_errors']:,} random states in the "
            "ranges of the inputs, and bounds for all states, proved by intervals: none where "
            f"nothing of use is proved. In these states: {counts}."
        ),
        tables.errors(facts),
    )


def _front(marks: Sequence[charts.Mark], facts: Mapping[str, Any]) -> str:
    if not marks:
        return ""
    best = sum(mark.best for mark in marks)
    rows = [
        (m.interval, (m.dsp, f"{m.dsp:.1f} %"), m.error, m.latency, m.form, m.algorithm)
        for m in sorted(marks)
        if m.best
    ]
    head = ["interval", "DSPs", "largest error", "latency", "format", "algorithm"]
    return _section(
        "Designs around it",
        _words(
            f"Of {len(marks)} designs of this function, {best} (filled) are not beaten in "
            "interval, DSPs, error and latency by another one. Errors are parts of the largest "
            "result. The mark with a rim is the design of this page."
        ),
        charts.front(marks),
        _folded("The front", tables.table(head, rows, sortable=True)),
    )


def _roof(design: Design, link: float) -> str:
    moved = WORD * (len(design.inputs) + len(design.outputs))
    packed = (design.input_bits + design.output_bits) / 8
    roofs = [("words of 4 bytes", 1e9 * link / moved), ("packed words", 1e9 * link / packed)]
    rate = design.pipeline.throughput
    shares = ", ".join(f"{min(rate / own, 1):.0%} of the roof of {name}" for name, own in roofs)
    return _section(
        "Roof of inputs and results",
        _words(
            f"A task and its results are {moved:,} bytes as words of 4 bytes and {packed:,.0f} "
            f"packed; they pass at {link:g} GB/s. This design reaches {shares}."
        ),
        tag("div", charts.roof(design.interval, design.pipeline.clock, roofs), class_="charts"),
    )


def _choices(facts: Mapping[str, Any]) -> str:
    rows = [
        (name.replace("_", " "), number(value) if isinstance(value, float) else str(value))
        for name, value in facts.items()
        if isinstance(value, str | int | float)
    ]
    return _section(
        "All figures", _folded("Figures", tables.table(["figure", "value"], rows, class_="words"))
    )
