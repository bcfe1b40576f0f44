"""Stations and links of a network, and its timeline: the dataflow of functions, as in figures 12
and 14 of Dadu-RBD (2023).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from featherlane.accelerators.report.svg import line, picture, rect, tag, text
from featherlane.accelerators.report.timeline import HEAD, LANE, ROW_GAP, WIDTH, ticks
from featherlane.backends.fpga.network.cycles import Timeline
from featherlane.backends.fpga.network.structure import DECODE, ENCODE, Channel, Network

BOX, HEIGHT, APART, LEVEL = 132.0, 92.0, 168.0, 34.0


def functions_of(network: Network, link: Channel) -> list[str]:
    """The functions whose tasks put words into a link."""
    return sorted({network.function_of(i) for i in link.puts}, key=[*network.codes].index)


def diagram(network: Network) -> str:
    """Stations in their order; links to the next one straight, those that go farther above, and
    those that come back below. Links of the same ends are one arrow.
    """
    order = [DECODE, *network.stations, ENCODE]
    x_of = {name: 12 + n * (BOX + APART) for n, name in enumerate(order)}
    bundles = defaultdict[tuple[str, str], list[Channel]](list)
    for link in network.links.values():
        bundles[link.source.station, link.target.station].append(link)
    arcs = [pair for pair in bundles if order.index(pair[1]) - order.index(pair[0]) != 1]
    back = sum(order.index(b) <= order.index(a) for a, b in arcs)
    top = 26 + LEVEL * (len(arcs) - back)
    middle = top + HEIGHT / 2
    parts, above, below = list[str](), 0, 0
    for (source, target), links in bundles.items():
        step = order.index(target) - order.index(source)
        begin, end = x_of[source] + BOX, x_of[target]
        if step == 1:
            path = f"M{begin},{middle} H{end - 7}"
            place = (begin + end) / 2, middle
        elif step > 1:
            above += 1
            y = top - LEVEL * above + 8
            start, finish = begin - 20 - 9 * above, end + 20 + 9 * above
            path = f"M{start},{top} V{y} H{finish} V{top - 7}"
            place = start + 66, y
        else:
            below += 1
            y = top + HEIGHT + LEVEL * below - 8
            start, finish = x_of[source] + 20 + 9 * below, x_of[target] + BOX - 20 - 9 * below
            path = f"M{start},{top + HEIGHT} V{y} H{finish} V{top + HEIGHT + 7}"
            place = (start + finish) / 2, y
        parts.append(_arrow(network, links, path, place, narrow=step == 1))
    for name in order:
        parts.append(_station(network, name, x_of[name], top))
    height = top + HEIGHT + LEVEL * below + 22
    head = tag("path", d="M0,0 L8,4 L0,8 z", class_="head")
    size = {"viewBox": "0 0 8 8", "refX": 1, "refY": 4, "markerWidth": 8, "markerHeight": 8}
    marker = tag("marker", head, id="head", orient="auto", markerUnits="userSpaceOnUse", **size)
    return picture(
        x_of[ENCODE] + BOX + 12, height, [tag("defs", marker), *parts], "Stations and links"
    )


def _arrow(
    network: Network, links: Sequence[Channel], path: str, place: tuple[float, float], narrow: bool
) -> str:
    """The links between two stations as one arrow with their bits and places."""
    bits = sum(link.bits for link in links)
    depth = max(link.depth for link in links)
    names = ", ".join(link.name for link in links)
    title = "\n".join(
        f"{link.name}: {link.bits:,} bits, {link.depth} places, for "
        + ", ".join(functions_of(network, link))
        for link in links
    )
    x, y = place
    shown = names if len(names) <= (24 if narrow else 60) else f"{len(links)} links"
    size = f"{bits:,} bits × {depth}" if depth else f"{bits:,} bits"
    functions = dict.fromkeys(name for link in links for name in functions_of(network, link))
    words = text(shown, x, y - 5, "label", "middle") + text(size, x, y + 14, "tick", "middle")
    curve = tag("path", tag("title", escape(title)), d=path, class_="flow", marker_end="url(#head)")
    return tag("g", curve, words, class_="way", data_functions=" ".join(functions))


def _station(network: Network, name: str, x: float, y: float) -> str:
    """A station as a box, with its interval, its latency and the functions that pass through it."""
    station = network.stations.get(name)
    rows = [name]
    if station is not None:
        rows += [f"interval {station.interval}", f"latency {station.latency}"]
    functions = {name for link in network.links.values() for name in functions_of(network, link)}
    if station is not None:
        links = network.into(name)
        functions = {f for link in links for f in functions_of(network, link)}
    first = y + HEIGHT / 2 + 4 - 8 * (len(rows) - 1)
    words = [
        text(row, x + BOX / 2, first + 16 * n, "joint" if n == 0 else "tick", "middle")
        for n, row in enumerate(rows)
    ]
    box = rect(x, y, BOX, HEIGHT, "cell", rx=8)
    return tag("g", box, *words, class_="way", data_functions=" ".join(sorted(functions)))


def links(network: Network) -> list[tuple[object, ...]]:
    """A row for each link: its ends, bits, places, the memories of these, and functions."""
    return [
        (
            link.name,
            f"{link.source.station} to {link.target.station}",
            link.bits,
            link.depth,
            _memories(network, link),
            ", ".join(functions_of(network, link)),
        )
        for link in network.links.values()
    ]


def _memories(network: Network, link: Channel) -> str:
    """The memories that a link lies in, in words."""
    if not link.depth:
        return "none"
    if not link.sliced:
        return "LUTs"
    return f"UltraRAM, {network.slices.steps} slices a word"


def timeline(network: Network, cycles_of_tasks: Timeline, functions: Sequence[str]) -> str:
    """Which station has which task in which cycle. functions: of the tasks, by name."""
    first = int(min(cycles_of_tasks.accepted))
    cycles = int(max(cycles_of_tasks.emitted)) - first + 1
    scale = max(WIDTH / cycles, 3.0)
    spans = defaultdict[str, list[tuple[int, int, int, str]]](list)
    for station, cycle, task, instruction in cycles_of_tasks.taken:
        spans[station].append((cycle - first, stays(network, station, instruction), task, station))
    for task, (begin, end) in enumerate(
        zip(cycles_of_tasks.accepted, cycles_of_tasks.emitted, strict=True)
    ):
        spans["whole"].append((int(begin) - first, int(end) - int(begin), task, "whole"))
    y, names, bars = float(HEAD), list[str](), list[str]()
    for name, of_station in spans.items():
        ends = list[int]()
        for begin, length, task, _ in sorted(of_station):
            lane = next((n for n, end in enumerate(ends) if end <= begin), len(ends))
            ends[lane : lane + 1] = [begin + length]
            title = (
                f"{name}: task {task + 1}, {functions[task]}, cycles {begin} to {begin + length}"
            )
            place = begin * scale, y + lane * LANE, max(length * scale - 1, 1), LANE - 1
            kind = [*network.codes].index(functions[task])
            bars.append(rect(*place, f"start function{kind}", title, rx=1.5))
        height = max(len(ends) * LANE, 11)
        names.append(text(name, 62, y + height / 2 + 4, "label", "end"))
        y += height + ROW_GAP
        bars.append(rect(0, y - ROW_GAP / 2, cycles * scale, 0.5, "rule"))
    marks = ticks(cycles)
    axis = [text(str(n), n * scale, 12, "tick", "middle" if n else "start") for n in marks]
    axis += [line([(n * scale, HEAD - 6), (n * scale, y)], "grid") for n in marks]
    left = picture(66, y + 4, [text("cycle", 62, 12, "tick", "end"), *names], "Stations")
    right = picture(cycles * scale + 4, y + 4, [*axis, *bars], "Cycles of each station and task")
    keys = [
        tag("li", tag("i", class_=f"swatch function{n}"), escape(name.replace("_", " ")))
        for n, name in enumerate(network.codes)
    ]
    drawn = tag("div", left, tag("div", right, class_="scroll"), class_="timeline")
    return tag("ul", *keys, class_="legend") + drawn


def stays(network: Network, station: str, instruction: int) -> int:
    """The cycles until the last word of a task with a micro-instruction leaves a station."""
    ports = network.stations[station].outputs
    source_ports = [
        link.source.port for link in network.out_of(station) if instruction in link.puts
    ]
    return max((ports[port].cycle for port in source_ports), default=0) + 1
