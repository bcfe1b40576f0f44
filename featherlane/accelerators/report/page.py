"""The page of a design: arrays, timeline, utilisation, resources, errors, designs around it, and
the roof of words, in one HTML file without scripts or styles from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from featherlane.accelerators.report import charts, organisation, stations, tables, timeline
from featherlane.accelerators.report.boxes import Box, boxes
from featherlane.accelerators.report.svg import number, tag
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.network.cycles import Timeline
from featherlane.backends.fpga.network.structure import Network
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
        _section(
            "Arrays and modules", _words(ARRAYS), *_drawn(module_boxes, subject.robot), CHOSEN
        ),
        _timeline(module_boxes, design),
    ]
    return _page(subject, work, module_boxes, module_boxes)


def network_page(
    subject: Subject, network: Network, tasks: Sequence[str], timeline_of_tasks: Timeline
) -> str:
    """The page of a design of several functions, as text. tasks: the functions of some tasks;
    timeline_of_tasks: their cycles by the cycle model.
    """
    of_stations = _of_stations(network, subject.cost)
    every = [box for of_station in of_stations.values() for box in of_station]
    work = [
        _dataflow(network),
        _arrays(of_stations, subject.robot),
        _network_timeline(network, of_stations, tasks, timeline_of_tasks),
    ]
    return _page(subject, work, every, [*every, *_between(network, subject.cost)])


def _page(
    subject: Subject, work: Sequence[str], module_boxes: Sequence[Box], modules: Sequence[Box]
) -> str:
    """The page around the sections of a design's work. modules: all that take resources."""
    facts, cost, interval = subject.facts, subject.cost, subject.facts["interval"]
    parts = [
        _head(subject),
        *([_figure(subject.figure)] if subject.figure else []),
        *work,
        _utilisation(module_boxes, interval),
        _section(
            "Resources", tables.kinds(cost), _folded("Modules", tables.resources(modules, cost))
        ),
        _errors(facts),
        _front(subject.marks),
        _roof(subject),
        _choices(facts),
    ]
    data = json.dumps({"interval": interval, "units": _units(module_boxes)}, separators=(",", ":"))
    return _document(subject.title, "".join(parts), data.replace("</", "<\\/"))


def _of_stations(network: Network, cost: DesignCost) -> dict[str, list[Box]]:
    """The boxes of each station; those whose names an earlier one has are called after theirs."""
    of_stations, seen = dict[str, list[Box]](), set[str]()
    for station, station_of in network.stations.items():
        module_boxes = boxes(station_of.design, cost)
        name = {x.name: f"{x.name} {station}" if x.name in seen else x.name for x in module_boxes}
        seen |= name.keys()
        of_stations[station] = [
            x._replace(name=name[x.name], reads=frozenset(name.get(n, n) for n in x.reads))
            for x in module_boxes
        ]
    return of_stations


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


def _section(title: str, *inside: str) -> str:
    return tag("section", tag("h2", escape(title)), *inside)


def _folded(title: str, inside: str) -> str:
    return tag("details", tag("summary", escape(title)), inside)


def _words(words: str) -> str:
    return tag("p", escape(words))


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
        _words(f"{choices}. {facts['modules']} modules. Delays: {facts['delays']}, a model."),
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


def _drawn(module_boxes: Sequence[Box], robot: RobotTree) -> list[str]:
    """The modules of a pipeline as an array, with its legend."""
    drawn = organisation.drawn(module_boxes, robot.parents, robot.joints)
    return [organisation.legend(module_boxes), tag("div", drawn, class_="scroll")]


def _figure(figure: Drawing) -> str:
    return _section(
        "Organisation",
        tag("div", figure.drawing, class_="scroll"),
        tag("ul", *(tag("li", escape(sentence)) for sentence in figure.sentences)),
    )


def _timeline(module_boxes: Sequence[Box], design: Design) -> str:
    return _section(
        "Timeline",
        _words(
            f"A new task enters {every(design.interval)} and leaves after {design.latency}. "
            "Bars are the time that a module works on a task, darker where more operations start; "
            "a colour is a task, and vertical lines are where tasks end."
        ),
        timeline.drawn(module_boxes, design.interval, design.latency),
    )


def _utilisation(module_boxes: Sequence[Box], interval: int) -> str:
    return _section(
        "Utilisation",
        _words(
            f"Of the {interval} cycles of a period, those in which a shared unit starts an "
            "operation."
        ),
        tables.utilisation(module_boxes, interval),
        _folded("Modules", tables.by_module(module_boxes, interval)),
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
    return _section(
        "Errors",
        _words(
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
    return _section(
        "Designs around it",
        _words(
            f"Of {len(marks)} designs, {best} (filled) are not beaten in "
            "interval, DSPs, error and latency by another one. Errors are parts of the largest "
            "result. The mark with a rim is the design of this page."
        ),
        charts.front(marks),
        _folded("The front", tables.table(head, rows, sortable=True)),
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
    return _section(
        "Roof of inputs and results",
        _words(
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
    return _section(
        "All figures", _folded("Figures", tables.table(["figure", "value"], rows, class_="words"))
    )


# Designs of several functions


def _dataflow(network: Network) -> str:
    """The section on stations and links."""
    buttons = [
        tag("button", escape(name.replace("_", " ")), value=name, aria_pressed="false")
        for name in network.codes
    ]
    head = ["link", "ends", "bits", "places", "in", "functions"]
    return _section(
        "Stations and links",
        _words(
            "Stations are pipelines that never wait, links are FIFOs between them, with the bits "
            "of a word and its places. Choose a function to see its way."
        ),
        tag("div", *buttons, class_="choices"),
        tag("div", stations.diagram(network), class_="scroll"),
        _folded("Links", tables.table(head, stations.links(network))),
    )


def _arrays(of_stations: Mapping[str, Sequence[Box]], robot: RobotTree) -> str:
    drawn = [
        "".join([tag("h3", f"Station {escape(name)}"), *_drawn(boxes_of_station, robot)])
        for name, boxes_of_station in of_stations.items()
    ]
    return _section("Arrays and modules", _words(ARRAYS), *drawn, CHOSEN)


def _network_timeline(
    network: Network,
    of_stations: Mapping[str, Sequence[Box]],
    tasks: Sequence[str],
    cycles: Timeline,
) -> str:
    """The section on the timeline of tasks, with those of the stations' modules."""
    modules = [
        _folded(
            f"Modules of station {name}",
            timeline.drawn(module_boxes, network.interval, network.stations[name].latency),
        )
        for name, module_boxes in of_stations.items()
    ]
    return _section(
        "Timeline",
        _words(
            f"{len(tasks)} tasks of all functions, in the order in which they come, by the cycle "
            "model: how long each is in each station, until its last word leaves, and in the whole "
            "design. A colour is a function."
        ),
        stations.timeline(network, cycles, tasks),
        *modules,
    )


def _between(network: Network, cost: DesignCost) -> list[Box]:
    """The modules between stations, as boxes without work."""
    inside = tuple(f"{station.design.name}_" for station in network.stations.values())
    return [
        Box(
            module.removeprefix(f"{network.name}_"),
            "",
            None,
            (module,),
            {},
            0,
            needed,
            (),
            frozenset(),
        )
        for module, needed in cost.modules.items()
        if not module.startswith(inside)
    ]
