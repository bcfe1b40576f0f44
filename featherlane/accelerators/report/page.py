"""The page of a design: arrays, timeline, utilisation, resources, errors, designs around it, and
the roof of words, in one HTML file without scripts or styles from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from featherlane.accelerators.report import charts, organisation, tables, timeline
from featherlane.accelerators.report.boxes import Box, boxes
from featherlane.accelerators.report.svg import number, tag
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.text import every
from featherlane.backends.fpga.verilog import Design

FOLDER = files("featherlane.accelerators.report")
WORD = 4  # bytes
ARRAYS = (
    "A row for each limb, a column for each joint, and in each joint the steps of the algorithm; "
    "numbers are DSPs. Choose a step to see its units, and from where it reads."
)
CHOSEN = '<div id="chosen" hidden></div>'


class RobotTree(NamedTuple):
    """The names and the tree of a robot. parents: of each joint, -1 of those at the ground."""

    name: str
    joints: Sequence[str]
    parents: Sequence[int]


class Drawing(NamedTuple):
    """A drawing in SVG, and a sentence for each of its signs and of its reasons."""

    drawing: str
    sentences: Sequence[str]


class Subject(NamedTuple):
    """The design that a page is about.

    facts: the report of the design as data. marks: designs of the same functions, none if they were
    not looked at. words: the numbers of a task and its result, and their bits together, by
    function. link: bytes a nanosecond of the memory's interface. figure: of the organisation, if
    the robot's structure gave one.
    """

    robot: RobotTree
    cost: DesignCost
    facts: Mapping[str, Any]
    marks: Sequence[charts.Mark]
    words: Mapping[str, tuple[int, int]]
    link: float
    figure: Drawing | None = None

    @property
    def title(self) -> str:
        first, *others = self.facts["functions"]
        several = f"{1 + len(others)} functions in one design"
        return f"{self.robot.name}: {several if others else first.replace('_', ' ')}"


def page(subject: Subject, design: Design) -> str:
    """The page of a pipeline, as text."""
    module_boxes = boxes(design, subject.cost)
    work = [
        array_section(drawn_modules(module_boxes, subject.robot)),
        _timeline(module_boxes, design),
    ]
    return page_of(subject, work, module_boxes, module_boxes)


def page_of(
    subject: Subject, work: Sequence[str], module_boxes: Sequence[Box], modules: Sequence[Box]
) -> str:
    """The page around the sections of a design's work. modules: all that take resources."""
    facts, cost, interval = subject.facts, subject.cost, subject.facts["interval"]
    parts = [
        _head(subject),
        *([_figure(subject.figure)] if subject.figure else []),
        *work,
        _utilisation(module_boxes, interval),
        section(
            "Resources", tables.kinds(cost), folded("Modules", tables.resources(modules, cost))
        ),
        _errors(facts),
        _front(subject.marks),
        _roof(subject),
        _choices(facts),
    ]
    data = json.dumps({"interval": interval, "units": _units(module_boxes)}, separators=(",", ":"))
    return _document(subject.title, "".join(parts), data.replace("</", "<\\/"))


def array_section(drawn: Sequence[str]) -> str:
    """The section on arrays and modules, around their drawings."""
    return section("Arrays and modules", paragraph(ARRAYS), *drawn, CHOSEN)


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


def _units(module_boxes: Sequence[Box]) -> dict[str, list[Any]]:
    return {
        box.name: [[unit.kind, [[*slot] for slot in unit.slots]] for unit in box.units]
        for box in module_boxes
        if box.units
    }


def section(title: str, *inside: str) -> str:
    """A section with its title, as text of HTML."""
    return tag("section", tag("h2", escape(title)), *inside)


def folded(title: str, inside: str) -> str:
    """A part of a section that opens where its title is chosen."""
    return tag("details", tag("summary", escape(title)), inside)


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return tag("p", escape(text))


def _head(subject: Subject) -> str:
    """The head of the page: figures in tiles, and the choices."""
    facts, needs = subject.facts, subject.cost.shares
    cycles, device = facts["latency"].values(), subject.cost.device
    span = f"{min(cycles)} to {max(cycles)}" if len(cycles) > 1 else f"{min(cycles)}"
    tiles = [
        ("interval", f"{facts['interval']}", f"cycles of {facts['clock_ns']:g} ns"),
        ("latency", span, f"cycles, up to {max(facts['latency_us'].values()):.3g} µs"),
        ("tasks", f"{max(facts['tasks_per_second'].values()) / 1e6:.3g}", "million a second"),
        ("in flight", f"{facts['tasks_in_flight']}", "tasks at most"),
        ("DSPs", f"{needs.dsps:.1f} %", f"{facts['needs']['dsps']:,} of {device.dsps:,}"),
        ("LUTs", f"{needs.luts:.1f} %", "estimated"),
        ("flip-flops", f"{needs.ffs:.1f} %", "estimated"),
    ]
    choices = f"{facts['format']} on {facts['device']}"
    if facts["algorithm"]:
        choices += f", algorithm {facts['algorithm']}"
    return tag(
        "header",
        tag("h1", escape(subject.title)),
        paragraph(f"{choices}. {facts['modules']} modules. Delays: {facts['delays']}, a model."),
        _tiles(tiles),
        *([] if len(cycles) == 1 else ["<h2>Functions</h2>", _functions(facts)]),
    )


def _functions(facts: Mapping[str, Any]) -> str:
    """The latency and the rate of each function."""
    rows = [
        (
            name.replace("_", " "),
            cycles,
            (cycles, f"{facts['latency_us'][name]:.3f}"),
            (rate := facts["tasks_per_second"][name], f"{rate / 1e6:.3g}"),
        )
        for name, cycles in facts["latency"].items()
    ]
    return tables.table(["function", "cycles", "µs", "million a second"], rows)


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    """The main figures."""
    shown = [
        tag("div", tag("span", name), tag("strong", escape(value)), tag("span", escape(note)))
        for name, value, note in tiles
    ]
    return tag("div", *shown, class_="tiles")


def drawn_modules(module_boxes: Sequence[Box], robot: RobotTree) -> list[str]:
    """The modules of a pipeline as an array, with its legend."""
    drawn = organisation.drawn(module_boxes, robot.parents, robot.joints)
    return [organisation.legend(module_boxes), tag("div", drawn, class_="scroll")]


def _figure(figure: Drawing) -> str:
    return section(
        "Organisation",
        tag("div", figure.drawing, class_="scroll"),
        tag("ul", *(tag("li", escape(sentence)) for sentence in figure.sentences)),
    )


def _timeline(module_boxes: Sequence[Box], design: Design) -> str:
    return section(
        "Timeline",
        paragraph(
            f"A new task enters {every(design.interval)} and leaves after {design.latency}. "
            "Bars are the time that a module works on a task, darker where more operations start; "
            "a colour is a task, and vertical lines are where tasks end."
        ),
        timeline.drawn(module_boxes, design.interval, design.latency),
    )


def _utilisation(module_boxes: Sequence[Box], interval: int) -> str:
    return section(
        "Utilisation",
        paragraph(
            f"Of the {interval} cycles of a period, those in which a shared unit starts an "
            "operation."
        ),
        tables.utilisation(module_boxes, interval),
        folded("Modules", tables.by_module(module_boxes, interval)),
    )


def _errors(facts: Mapping[str, Any]) -> str:
    """The section on errors."""
    each = facts["errors"].values()
    happened = {
        "overflows of signals": "overflows",
        "clamped signals": "clamped",
        "saturated entries of inputs": "saturated",
        "states without a result": "lost",
    }
    counts = ", ".join(f"{sum(x[key] for x in each):,} {name}" for name, key in happened.items())
    return section(
        "Errors",
        paragraph(
            f"Differences from float64 over {facts['states_of_errors']:,} random states of each "
            "function in the ranges of the inputs, and bounds for all states, proved by intervals: "
            f"none where nothing of use is proved. In these states: {counts}."
        ),
        tables.errors(facts),
    )


def _front(marks: Sequence[charts.Mark]) -> str:
    """The section on the designs around this one, nothing where there are none."""
    if not marks:
        return ""
    best = sum(mark.best for mark in marks)
    rows = [
        (m.interval, (m.dsp, f"{m.dsp:.1f} %"), m.error, m.latency, m.form, m.algorithm)
        for m in sorted(marks)
        if m.best
    ]
    head = ["interval", "DSPs", "largest error", "latency", "format", "algorithm"]
    return section(
        "Designs around it",
        paragraph(
            f"Of {len(marks)} designs, {best} (filled) are not beaten in "
            "interval, DSPs, error and latency by another one. Errors are parts of the largest "
            "result. The mark with a rim is the design of this page."
        ),
        charts.front(marks),
        folded("The front", tables.table(head, rows, sortable=True)),
    )


def _roof(subject: Subject) -> str:
    """Each function below the rate at which its words pass."""
    rows, link = [], subject.link
    for name, (numbers, bits) in subject.words.items():
        rate = subject.facts["tasks_per_second"][name]
        roofs = [1e9 * link / (WORD * numbers), 1e9 * link / (bits / 8)]
        rows.append(
            (
                name.replace("_", " "),
                WORD * numbers,
                round(bits / 8),
                *((x, f"{x / 1e6:.3g}") for x in (rate, *roofs)),
                tables.share(min(rate / roofs[1], 1.0)),
            )
        )
    head = ["function", "bytes, words", "bytes, packed", "million a second", "roof, words"]
    head += ["roof, packed", "of the packed roof"]
    return section(
        "Roof of inputs and results",
        paragraph(
            f"The bytes of a task and its results as words of 4 bytes and packed, and how many "
            f"million tasks a second pass at {link:g} GB/s."
        ),
        tables.table(head, rows),
        *([_roof_chart(subject)] if len(rows) == 1 else []),
    )


def _roof_chart(subject: Subject) -> str:
    """The roofs of one function, by the interval."""
    facts, ((numbers, bits),) = subject.facts, subject.words.values()
    roofs = [
        ("words of 4 bytes", 1e9 * subject.link / (WORD * numbers)),
        ("packed words", 1e9 * subject.link / (bits / 8)),
    ]
    return tag("div", charts.roof(facts["interval"], facts["clock_ns"], roofs), class_="charts")


def _choices(facts: Mapping[str, Any]) -> str:
    rows = [
        (name.replace("_", " "), number(value) if isinstance(value, float) else str(value))
        for name, value in facts.items()
        if isinstance(value, str | int | float)
    ]
    return section(
        "All figures", folded("Figures", tables.table(["figure", "value"], rows, class_="words"))
    )
