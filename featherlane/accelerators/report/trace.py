"""Traces of pipelines in the JSON format of Chrome's trace viewer, which https://ui.perfetto.dev
opens: tasks on their way through the modules of a design, cycle by cycle.

A trace is an object with `traceEvents`. Events "M" name processes and threads, which are groups of
tracks and tracks here; events "X" are spans, with a begin `ts` and a length `dur` in microseconds.
Spans of one track must not overlap, unless one lies within the other, so that a module that works
on several tasks at once has several tracks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from featherlane.accelerators.report.boxes import Box
from featherlane.accelerators.report.stations import stays
from featherlane.backends.fpga.network.cycles import Timeline
from featherlane.backends.fpga.network.structure import Network

WORDS, TASKS, STATIONS, MODULES = "words", "tasks", "stations", "modules"
MICROSECONDS = 1e-3  # a nanosecond


class Span(NamedTuple):
    """The work on a task, from a cycle to the one behind the last. group, track: of the drawing
    where it is shown; task: from 0; details: for a click on it; kind: of the task, by which it is
    coloured.
    """

    group: str
    track: str
    task: int
    first: int
    end: int
    details: dict[str, Any]
    kind: str = "task"


def spans(
    boxes: Sequence[Box], latency: int, accepted: Sequence[int], emitted: Sequence[int]
) -> Iterator[Span]:
    """Yields what a pipeline does for tasks. accepted, emitted: the cycles in which the words of
    each task go in and those of its results come out; in the cycle behind the first one, cycle 0
    of the task, its inputs are there.
    """
    for task, (first, last) in enumerate(zip(accepted, emitted, strict=True)):
        begin, end = int(first) + 1, int(last) + 1
        waits = {"cycles in the datapath": latency, "cycles in the FIFO": end - begin - latency}
        yield Span(WORDS, "in", task, begin - 1, begin, {})
        yield Span(WORDS, "out", task, end - 1, end, {})
        yield Span(TASKS, "under way", task, begin, max(end, begin + 1), waits)
        for box in boxes:
            if box.work:
                details = {"operations": sum(box.work.values()), "cycle of the task": box.first}
                last_cycle = max(box.last, max(box.work) + 1)
                cycles = begin + box.first, begin + last_cycle
                yield Span(MODULES, box.name, task, *cycles, details)


def network_spans(network: Network, timeline: Timeline, functions: Sequence[str]) -> Iterator[Span]:
    """Yields what a network does for tasks. functions: of the tasks, by name."""
    kinds = [name.replace("_", " ") for name in functions]
    for task, (first, last) in enumerate(zip(timeline.accepted, timeline.emitted, strict=True)):
        begin, end, rest = int(first), int(last), ({"function": functions[task]}, kinds[task])
        yield Span(WORDS, "in", task, begin, begin + 1, *rest)
        yield Span(WORDS, "out", task, end, end + 1, *rest)
        yield Span(TASKS, "under way", task, begin, end + 1, *rest)
    for station, cycle, task, instruction in timeline.taken:
        details = {"function": functions[task], "micro-instruction": str(instruction)}
        end = cycle + stays(network, station, instruction)
        yield Span(STATIONS, station, task, cycle, end, details, kinds[task])


def trace(spans: Sequence[Span], clock: float, about: dict[str, Any]) -> dict[str, Any]:
    """Returns a trace, as JSON takes it. clock: nanoseconds a cycle; about: of the design."""
    events = list[dict[str, Any]]()
    groups = {name: n for n, name in enumerate(dict.fromkeys(span.group for span in spans), 1)}
    for name, pid in groups.items():
        events += [_named("process", pid, 0, name), _sorted("process", pid, 0, pid)]
    tracks = defaultdict[tuple[str, str], list[Span]](list)
    for span in spans:
        tracks[span.group, span.track].append(span)
    tid = 0
    for (group, track), of_track in tracks.items():
        for lane in _lanes(of_track):
            tid += 1
            pid = groups[group]
            events += [_named("thread", pid, tid, track), _sorted("thread", pid, tid, tid)]
            events += [_event(span, pid, tid, clock) for span in lane]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": f"{what}_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _sorted(what: str, pid: int, tid: int, place: int) -> dict[str, Any]:
    """The place of a group, or of a track in its group."""
    order = {"sort_index": place}
    return {"ph": "M", "name": f"{what}_sort_index", "pid": pid, "tid": tid, "args": order}


def _event(span: Span, pid: int, tid: int, clock: float) -> dict[str, Any]:
    length = span.end - span.first
    return {
        "ph": "X",
        "name": f"{span.kind} {span.task}",
        "cat": span.group,
        "pid": pid,
        "tid": tid,
        "ts": round(span.first * clock * MICROSECONDS, 6),
        "dur": round(length * clock * MICROSECONDS, 6),
        "args": {"task": span.task, "cycle": span.first, "cycles": length, **span.details},
    }


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans on as few lines as hold them without overlaps."""
    lanes = list[list[Span]]()
    for span in sorted(spans, key=lambda s: (s.first, s.end)):
        for lane in lanes:
            if lane[-1].end <= span.first:
                lane.append(span)
                break
        else:
            lanes.append([span])
    return lanes
