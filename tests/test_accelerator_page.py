"""Pages and traces of accelerators."""

import json
import re
import shutil
from collections import defaultdict
from html.parser import HTMLParser
from itertools import pairwise

import pytest

import featherlane as fl
from featherlane.accelerators.report import organisation
from featherlane.accelerators.report.boxes import boxes

ALONE = {"meta", "!doctype"}  # elements without an end


class Checked(HTMLParser):
    """Elements that are open, names of those that were, and all words."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.words = [], defaultdict(int), []

    def handle_starttag(self, tag, attributes):
        self.seen[tag] += 1
        for name, value in attributes:
            assert name not in ("src", "href"), value  # nothing from elsewhere
            assert "nan" not in (value or "").split()
            assert name not in ("x", "y", "width", "height") or float(value) < 1e6
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def made():
    return fl.accelerator(fl.load("double_pendulum"), interval=3, format="proved")


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "design.html"
    front = fl.accelerator.front(
        made.model, "inverse_dynamics", formats=("q16.16", "proved"), intervals=(1, 3)
    )
    assert made.report(file, front) == file
    return file.read_text(encoding="utf-8")


def test_a_page_needs_nothing_else(page):
    parser = Checked()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert (parser.seen["section"], parser.seen["script"]) == (8, 2)


def test_designs_around_it_are_those_of_its_function(made, tmp_path):
    """Without a front the page has all but them."""
    file = made.report(tmp_path / "alone.html")
    assert "Designs around it" not in file.read_text(encoding="utf-8")
    tried = {"formats": ("q16.16",), "intervals": (8,)}
    others = fl.accelerator.front(made.model, "mass_matrix", **tried)
    with pytest.raises(
        ValueError, match=r"front is of mass_matrix of double_pendulum on .* wanted"
    ):
        made.report(file, others)
    slow = fl.accelerator.front(made.model, "inverse_dynamics", clock=100.0, **tried)
    with pytest.raises(ValueError, match=r"at 10 ns: wanted .* at 8 ns"):
        made.report(file, slow)
    with pytest.raises(TypeError, match=r"front is 3: wanted what accelerator\.front returns"):
        made.report(file, 3)


def test_a_page_says_what_the_design_is(made, page):
    parser = Checked()
    parser.feed(page)
    words = " ".join(parser.words)
    for name in made.model.joint_names:
        assert name in words
    for title in ("Arrays", "Timeline", "Utilisation", "Resources", "Errors", "Designs", "Roof"):
        assert title in words
    assert f"{made.cost.total.dsps:,.0f}" in words
    bound = made.facts["errors"]["inverse_dynamics"]["results"]["tau"]["proved_bound"]
    assert f"{bound:.1e}".replace("e-0", "e-") in words
    data = json.loads(re.search(r'id="units">(.*?)</script>', page).group(1))
    assert data["interval"] == made.interval
    slots = [slot for units in data["units"].values() for _, own in units for slot in own]
    shared = [o for o in made.pipeline.operators if o and o.shared]
    assert len(slots) == len(shared)


def test_boxes_have_all_that_a_design_has(made):
    found = boxes(made.design, made.cost)
    total = made.cost.total
    assert sum(box.needs.dsps for box in found) == total.dsps
    assert sum(box.needs.luts for box in found) == pytest.approx(total.luts)
    assert sum(sum(box.work.values()) for box in found) == sum(map(bool, made.pipeline.operators))
    for box in found:
        for unit in box.units:  # one operation a phase, or a sine and a cosine
            phases = {slot.cycle % made.interval for slot in unit.slots}
            assert len(phases) <= made.interval
            assert len({(slot.cycle, slot.cycle % made.interval) for slot in unit.slots}) == len(
                phases
            )


def test_limbs_end_where_several_begin():
    assert organisation.limbs([-1, 0, 1, 1, 3, 0]) == [[0], [1], [2], [3, 4], [5]]
    assert organisation.limbs([-1, 0, 1]) == [[0, 1, 2]]
    assert organisation.limbs([-1, -1]) == [[0], [1]]


# Traces


def spans(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def checked(file):
    """A trace, checked against the rules of the format."""
    trace = json.loads(file.read_text(encoding="utf-8"))
    names, tracks = {}, defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert {"name", "pid", "tid", "args"} <= event.keys()
        assert type(event["pid"]) is type(event["tid"]) is int
        if event["ph"] == "M":
            assert event["name"] in (
                "process_name",
                "thread_name",
                "process_sort_index",
                "thread_sort_index",
            )
            names[event["name"], event["pid"], event["tid"]] = event["args"]
        else:
            assert event["ts"] >= 0
            assert event["dur"] > 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    for (pid, tid), own in tracks.items():
        assert names["process_name", pid, 0]["name"]
        assert names["thread_name", pid, tid]["name"]
        own.sort()
        for (begin, length), (after, _) in pairwise(own):
            assert begin + length <= after + 1e-9  # spans of a track do not overlap
    return trace


def test_a_trace_has_each_task_in_each_module(made, tmp_path):
    trace = checked(made.trace(tmp_path / "trace.json", tasks=7))
    working = [box for box in boxes(made.design, made.cost) if box.work]
    modules = [event for event in spans(trace) if event["cat"] == "modules"]
    assert len(modules) == 7 * len(working)
    clock = made.pipeline.clock * 1e-3
    for event in spans(trace):
        assert event["ts"] == pytest.approx(event["args"]["cycle"] * clock)
        assert event["dur"] == pytest.approx(event["args"]["cycles"] * clock)


@pytest.mark.parametrize("stalls", [0, 100])
def test_a_trace_of_a_simulation_has_its_stamps(made, tmp_path, stalls):
    """Without stalls it is the trace that is told without a simulation."""
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    run = made.simulate(made.samples(12), "icarus", stalls)
    words = [
        e["args"]["cycle"]
        for e in spans(checked(made.trace(tmp_path / "run.json", run=run)))
        if e["cat"] == "words"
    ]
    assert sorted(words) == sorted([*run.accepted.tolist(), *run.emitted.tolist()])
    if not stalls:
        told = checked(made.trace(tmp_path / "told.json", tasks=12))
        first = int(run.accepted[0])
        wanted = [e["args"]["cycle"] + first for e in spans(told) if e["cat"] == "words"]
        assert sorted(words) == sorted(wanted)


def test_traces_are_of_runs_of_the_design(made, tmp_path):
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    other = fl.accelerator(made.model, interval=4, format="proved")
    run = other.simulate(other.samples(3), "icarus")
    with pytest.raises(ValueError, match="run is of another design"):
        made.trace(tmp_path / "run.json", run=run)
    with pytest.raises(TypeError, match="run is 3: wanted what simulate returns"):
        made.trace(tmp_path / "run.json", run=3)


# Several functions in one design


@pytest.fixture(scope="module")
def seven():
    return fl.multifunction(fl.load("double_pendulum"), interval=2, format="proved")


def test_a_page_of_several_functions(seven, tmp_path):
    """It has all stations, links, functions and errors."""
    page = seven.report(tmp_path / "seven.html").read_text(encoding="utf-8")
    parser = Checked()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"https?://|@import|url\(", page.replace("url(#head)", ""))
    words = " ".join(parser.words)
    for name in (*seven.network.stations, *seven.network.links):
        assert name in words
    for name, cycles in seven.latency.items():
        assert f"{cycles * seven.clock * 1e-3:.3f}" in words
        assert name.replace("_", " ") in words
    ways = re.findall(r'class="way" data-functions="([^"]*)"', page)
    ends = {(link.source.station, link.target.station) for link in seven.network.links.values()}
    assert len(ways) == len(ends) + len(seven.network.stations) + 2
    data = json.loads(re.search(r'id="units">(.*?)</script>', page).group(1))
    slots = sum(len(own) for units in data["units"].values() for _, own in units)
    stations = seven.network.stations.values()
    shared = [o for s in stations for o in s.design.pipeline.operators if o and o.shared]
    assert slots == len(shared)


def test_a_trace_of_several_functions_has_the_stamps_of_the_cycle_model(seven, tmp_path):
    names = [*seven.functions, *reversed(seven.functions)]
    trace = checked(seven.trace(tmp_path / "seven.json", names, stalls=60))
    found = seven.schedule(names, stalls=60)
    at = lambda kind: sorted(
        (e["args"]["cycle"], e["args"]["task"]) for e in spans(trace) if e["cat"] == kind
    )
    assert at("tasks") == sorted((int(c), n) for n, c in enumerate(found.accepted))
    assert at("stations") == sorted((taken.cycle, taken.task) for taken in found.taken)
    for event in spans(trace):
        assert event["args"]["function"] == names[event["args"]["task"]]


def test_files_that_cannot_be_written(made, tmp_path):
    with pytest.raises(ValueError, match="cannot be written"):
        made.trace(tmp_path / "nowhere" / "trace.json")
    with pytest.raises(ValueError, match="tasks is 0"):
        made.trace(tmp_path / "trace.json", tasks=0)
