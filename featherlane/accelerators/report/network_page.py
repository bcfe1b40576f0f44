"""The page of a design of several functions: that of a pipeline, with stations and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from featherlane.accelerators.report import stations, tables, timeline
from featherlane.accelerators.report.boxes import Box, boxes
from featherlane.accelerators.report.page import (
    RobotTree,
    Subject,
    array_section,
    drawn_modules,
    folded,
    page_of,
    paragraph,
    section,
)
from featherlane.accelerators.report.svg import tag
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.network.cycles import Timeline
from featherlane.backends.fpga.network.structure import Network


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
    return page_of(subject, work, every, [*every, *_between(network, subject.cost)])


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


def _dataflow(network: Network) -> str:
    """The section on stations and links."""
    buttons = [
        tag("button", escape(name.replace("_", " ")), value=name, aria_pressed="false")
        for name in network.codes
    ]
    head = ["link", "ends", "bits", "places", "in", "functions"]
    return section(
        "Stations and links",
        paragraph(
            "Stations are pipelines that never wait, links are FIFOs between them, with the bits "
            "of a word and its places. Choose a function to see its way."
        ),
        tag("div", *buttons, class_="choices"),
        tag("div", stations.diagram(network), class_="scroll"),
        folded("Links", tables.table(head, stations.links(network))),
    )


def _arrays(of_stations: Mapping[str, Sequence[Box]], robot: RobotTree) -> str:
    drawn = [
        "".join([tag("h3", f"Station {escape(name)}"), *drawn_modules(boxes_of_station, robot)])
        for name, boxes_of_station in of_stations.items()
    ]
    return array_section(drawn)


def _network_timeline(
    network: Network,
    of_stations: Mapping[str, Sequence[Box]],
    tasks: Sequence[str],
    cycles: Timeline,
) -> str:
    """The section on the timeline of tasks, with those of the stations' modules."""
    modules = [
        folded(
            f"Modules of station {name}",
            timeline.drawn(module_boxes, network.interval, network.stations[name].latency),
        )
        for name, module_boxes in of_stations.items()
    ]
    return section(
        "Timeline",
        paragraph(
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
