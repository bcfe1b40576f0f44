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
from featherlane.backends.fpga.network import words
from featherlane.backends.fpga.network.cycles import Timeline
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import Design

FOLDER = files("featherlane.accelerators.report")
WORD = 4  # bytes
ARRAYS = (
    "A row for each limb, a column for each joint, and in each joint the steps of the algorithm; "
    "numbers are DSPs. Choose a step to see its units, and from where it reads."
)
CHOSEN = '<div id="chosen" hidden></div>'


class Error(NamedTuple):
    """Errors of a result: the median and the largest one over random states, and a bound that is
    proved for all, None if there is none of use; magnitude: the largest number that it has.
    """

    function: str
    result: str
    magnitude: float
    median: float
    largest: float
    bound: float | None


class Robot(NamedTuple):
    """What the drawings need of a robot. parents: of each joint, -1 of those at the ground."""

    name: str
    joints: Sequence[str]
    parents: Sequence[int]


class Figure(NamedTuple):
    """A drawing in SVG, and a sentence for each of its signs and of its reasons."""

    drawing: str
    told: Sequence[str]


def page(
    design: Design,
    cost: DesignCost,
    robot: Robot,
    facts: Mapping[str, Any],
    marks: Sequence[charts.Mark],
    link: float,
    figure: Figure | None = None,
) -> str:
    """The page as text. facts: the report of the design as data; marks: designs of the same
    function, none if they were not looked at; link: bytes a nanosecond of the memory's interface;
    figure: of the organisation, if the robot's structure gave one.
    """
    found = boxes(design, cost)
    title = f"{robot.name}: {facts['function'].replace('_', ' ')}"
    parts = [
        _head(title, facts, cost),
        *([_figure(figure)] if figure else []),
        _organisation(found, robot),
        _timeline(found, design),
        _utilisation(found, design.interval),
        _section(
            "Resources", tables.kinds(cost), _folded("Modules", tables.resources(found, cost))
        ),
        _errors(facts),
        _front(marks),
        _roof(design, link),
        _choices(facts),
    ]
    data = json.dumps({"interval": design.interval, "units": _units(found)}, separators=(",", ":"))
    return _document(title, "".join(parts), data.replace("</", "<\\/"))


def network_page(
    network: Network,
    cost: DesignCost,
    robot: Robot,
    facts: Mapping[str, Any],
    tasks: Sequence[str],
    found: Timeline,
    errors: Sequence[Error],
    marks: Sequence[charts.Mark],
    link: float,
    figure: Figure | None = None,
) -> str:
    """The page of a design of several functions. tasks: the functions of some tasks, found: what
    the cycle model says of them; errors: of each result of each function. The others
    are those of `page`.
    """
    title = f"{robot.name}: {len(network.codes)} functions in one design"
    of_stations = _of_stations(network, cost)
    every = [box for own in of_stations.values() for box in own]
    parts = [
        _network_head(title, network, facts, cost),
        *([_figure(figure)] if figure else []),
        _dataflow(network),
        _arrays(of_stations, robot),
        _network_timeline(network, of_stations, tasks, found),
        _utilisation(every, network.interval),
        _section(
            "Resources",
            tables.kinds(cost),
            _folded("Modules", tables.resources([*every, *_between(network, cost)], cost)),
        ),
        _network_errors(errors),
        _front(marks),
        _network_roof(network, facts, link),
        _choices(facts),
    ]
    data = {"interval": network.interval, "units": _units(every)}
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return _document(title, "".join(parts), text)


def _of_stations(network: Network, cost: DesignCost) -> dict[str, list[Box]]:
    """The boxes of each station; those whose names an earlier one has are called after theirs."""
    found, seen = dict[str, list[Box]](), set[str]()
    for station, own in network.stations.items():
        made = boxes(own.design, cost)
        name = {x.name: f"{x.name} {station}" if x.name in seen else x.name for x in made}
        seen |= name.keys()
        found[station] = [
            x._replace(name=name[x.name], reads=frozenset(name.get(n, n) for n in x.reads))
            for x in made
        ]
    return found


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


def _head(title: str, facts: Mapping[str, Any], cost: DesignCost) -> str:
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
    choices = f"{facts['format']} on {facts['device']}"
    if facts.get("algorithm"):
        choices += f", algorithm {facts['algorithm']}"
    return tag(
        "header",
        tag("h1", escape(title)),
        _words(f"{choices}. {facts['modules']} modules. Delays: {facts['delays']}, a model."),
        _tiles(tiles),
    )


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    """The main figures."""
    shown = [
        tag("div", tag("span", name), tag("strong", escape(value)), tag("span", escape(note)))
        for name, value, note in tiles
    ]
    return tag("div", *shown, class_="tiles")


def _organisation(found: Sequence[Box], robot: Robot) -> str:
    return _section(
        "Arrays and modules",
        _words(ARRAYS),
        organisation.legend(found),
        tag("div", organisation.drawn(found, robot.parents, robot.joints), class_="scroll"),
        CHOSEN,
    )


def _figure(figure: Figure) -> str:
    return _section(
        "Organisation",
        tag("div", figure.drawing, class_="scroll"),
        tag("ul", *(tag("li", escape(sentence)) for sentence in figure.told)),
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


def _utilisation(found: Sequence[Box], interval: int) -> str:
    return _section(
        "Utilisation",
        _words(
            f"Of the {interval} cycles of a period, those in which a shared unit starts an "
            "operation."
        ),
        tables.utilisation(found, interval),
        _folded("Modules", tables.by_module(found, interval)),
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


def _front(marks: Sequence[charts.Mark]) -> str:
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


# Designs of several functions


def _network_head(title: str, network: Network, facts: Mapping[str, Any], cost: DesignCost) -> str:
    needs, latency = cost.shares, facts["latency"]
    low, high = min(latency.values()), max(latency.values())
    tiles = [
        ("interval", f"{network.interval}", f"cycles of {network.clock:g} ns"),
        ("latency", f"{low} to {high}", "cycles, by function"),
        ("under way", f"{network.depth}", "tasks at most"),
        ("DSPs", f"{needs.dsps:.1f} %", f"{cost.total.dsps:,.0f} of {cost.device.dsps:,}"),
        ("LUTs", f"{needs.luts:.1f} %", "estimated"),
        ("flip-flops", f"{needs.ffs:.1f} %", "estimated"),
    ]
    rows = [
        (
            name.replace("_", " "),
            cycles,
            (cycles, f"{cycles * network.clock * 1e-3:.3f}"),
            (rate := facts["tasks_per_second"][name], f"{rate / 1e6:.3g}"),
        )
        for name, cycles in latency.items()
    ]
    told = f"{facts['format']} on {facts['device']}. Delays: {facts['delays']}, a model."
    table = tables.table(["function", "cycles", "µs", "million a second"], rows)
    return tag(
        "header", tag("h1", escape(title)), _words(told), _tiles(tiles), "<h2>Functions</h2>", table
    )


def _dataflow(network: Network) -> str:
    buttons = [
        tag("button", escape(name.replace("_", " ")), value=name, aria_pressed="false")
        for name in network.codes
    ]
    head = ["link", "ends", "bits", "places", "functions"]
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


def _arrays(of_stations: Mapping[str, Sequence[Box]], robot: Robot) -> str:
    drawn = [
        tag("h3", f"Station {escape(name)}")
        + organisation.legend(found)
        + tag("div", organisation.drawn(found, robot.parents, robot.joints), class_="scroll")
        for name, found in of_stations.items()
    ]
    return _section("Arrays and modules", _words(ARRAYS), *drawn, CHOSEN)


def _network_timeline(
    network: Network,
    of_stations: Mapping[str, Sequence[Box]],
    tasks: Sequence[str],
    found: Timeline,
) -> str:
    modules = [
        _folded(
            f"Modules of station {name}",
            timeline.drawn(own, network.interval, network.stations[name].latency),
        )
        for name, own in of_stations.items()
    ]
    return _section(
        "Timeline",
        _words(
            f"{len(tasks)} tasks of all functions, in the order in which they come, by the cycle "
            "model: how long each is in each station, until its last word leaves, and in the whole "
            "design. A colour is a function."
        ),
        stations.timeline(network, found, tasks),
        *modules,
    )


def _between(network: Network, cost: DesignCost) -> list[Box]:
    """What lies between stations, as boxes without work."""
    inside = tuple(f"{station.design.name}_" for station in network.stations.values())
    return [
        Box(
            module.removeprefix(f"{network.name}_"),
            "",
            None,
            (module,),
            {},
            0,
            own,
            (),
            frozenset(),
        )
        for module, own in cost.modules.items()
        if not module.startswith(inside)
    ]


def _network_errors(errors: Sequence[Error]) -> str:
    if not errors:
        return ""
    head = ["function", "result", "largest result", "median error", "largest error", "proved bound"]
    rows = [
        (
            *(error.function.replace("_", " "), error.result),
            *(error.magnitude, error.median, error.largest),
            (error.bound or 0.0, "none" if error.bound is None else number(error.bound)),
        )
        for error in errors
    ]
    told = (
        "Differences from float64 over random states in the ranges of the inputs, and bounds for "
        "all states, proved by intervals: none where nothing of use is proved."
    )
    return _section("Errors", _words(told), tables.table(head, rows))


def moved(network: Network) -> dict[str, tuple[int, int]]:
    """The numbers of a task and its results, and their bits together, by function."""
    plan, found = words.layout(network), dict[str, tuple[int, int]]()
    for name in network.codes:
        own = [*plan.inputs[name], *plan.results[name]]
        found[name] = len(own), sum(place.width for place in own)
    return found


def _network_roof(network: Network, facts: Mapping[str, Any], link: float) -> str:
    """Each function below the rate at which its words pass."""
    rows = []
    for name, (numbers, bits) in moved(network).items():
        own = facts["tasks_per_second"][name]
        roofs = [1e9 * link / (WORD * numbers), 1e9 * link / (bits / 8)]
        rows.append(
            (
                name.replace("_", " "),
                WORD * numbers,
                round(bits / 8),
                *((x, f"{x / 1e6:.3g}") for x in (own, *roofs)),
                tables.share(min(own / roofs[1], 1.0)),
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
    )
