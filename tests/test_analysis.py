"""Tasks, paths and schedules of graphs, against their definitions on random graphs."""

import sys
from collections import Counter
from dataclasses import replace
from math import ceil, inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repetition import examples

import featherlane as fl
from featherlane.functions.table import FUNCTIONS

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from lathrop.path import availability, critical_path
from lathrop.schedule import ProcessingUnit, TaskSchedule, alap, asap, scheduled
from lathrop.tasks import Tasks, grouped, tasks

ONE = dict.fromkeys(("add", "mul", "div", "sqrt", "trig", "select"), 1)
LATENCY = {"add": 1, "mul": 4, "div": 9}
UNITS = {
    "add": ProcessingUnit(1),
    "mul": ProcessingUnit(4, 2, "dsp"),
    "div": ProcessingUnit(9, 9, "dsp"),
}


@st.composite
def works(draw):
    """Random tasks: some inputs, then operations on what came before."""
    inputs = draw(st.integers(1, 3))
    found = Tasks(["input"] * inputs, [()] * inputs, [f"x{k}" for k in range(inputs)])
    for k in range(inputs, inputs + draw(st.integers(1, 25))):
        found.kinds.append(draw(st.sampled_from(list(UNITS))))
        found.needs.append(tuple(draw(st.sets(st.integers(0, k - 1), min_size=1, max_size=2))))
        found.names.append(f"t{k}")
    found.results["out"] = tuple(range(inputs, len(found)))
    return found


def chains(found, k):
    """All chains that end in a task."""
    return [(*chain, k) for a in found.needs[k] for chain in chains(found, a)] or [(k,)]


def two_stages(interleaved):
    """A graph with stages A and B, where B needs A, and A needs B if interleaved."""

    def run(x):
        graph = x[0].graph
        graph.current_tag = "A"
        y = x[0] * x[1]
        graph.current_tag = "B"
        z = y + x[0]
        graph.current_tag = "A" if interleaved else "B"
        return z * y

    return fl.trace(run, {"x": 2})


# Tasks


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tasks_are_the_operations_that_cost_counts(iiwa, name):
    graph = iiwa.graph(name)
    found = tasks(graph)
    assert Counter(found.kinds[k] for k in found.work()) == graph.cost().kinds
    assert all(a < k for k, needs in enumerate(found.needs) for a in needs)
    assert set(found.results) == set(graph.outputs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_longest_chain_of_single_steps_is_the_depth(iiwa, name):
    graph = iiwa.graph(name)
    assert critical_path(tasks(graph), ONE).length == graph.cost().depth


def test_stages_are_submodules_of_a_pipeline(iiwa):
    found = grouped(iiwa.graph("inverse_dynamics"), lambda stage: stage.algorithm + stage.direction)
    assert Counter(found.kinds[k] for k in found.work()) == {"Rf": 7, "Rb": 7}
    path = critical_path(found, {"Rf": 1, "Rb": 1})
    out, back = [f"Rf{i}" for i in range(2, 8)], [f"Rb{i}" for i in range(7, 0, -1)]
    assert [str(found.names[k]) for k in path.tasks] == out + back  # link 1 turns about gravity


def test_constants_and_signs_are_no_tasks():
    found = tasks(fl.trace(lambda x: [2.0 * x[0], -(x[0] * x[1]), 3.0], {"x": 2}))
    assert sorted(found.kinds) == ["input", "input", "mul", "mul"]
    assert len(found.results["out"]) == 2


def test_stages_that_need_each_other_are_refused():
    assert grouped(two_stages(False), lambda stage: stage).work()
    with pytest.raises(ValueError, match="need each other"):
        grouped(two_stages(True), lambda stage: stage)


# Paths


@given(works())
@settings(max_examples=examples(60), deadline=None)
def test_a_result_is_there_after_its_longest_chain(found):
    arrival = {"x0": 5.0}
    times = availability(found, LATENCY, arrival)
    for k in range(len(found)):
        if k < 14:  # chains are many
            latencies = [LATENCY.get(kind, 0) for kind in found.kinds]
            starts = [5.0 if name == "x0" else 0.0 for name in found.names]
            ends = [starts[c[0]] + sum(latencies[a] for a in c) for c in chains(found, k)]
            assert times[k] == max(ends)


@given(works())
@settings(max_examples=examples(60), deadline=None)
def test_the_critical_path_is_a_chain_that_takes_the_whole_time(found):
    path = critical_path(found, LATENCY)
    assert path.length == max(availability(found, LATENCY))
    assert path.length == sum(LATENCY[found.kinds[k]] for k in path.tasks)
    assert path.kinds == Counter(found.kinds[k] for k in path.tasks)
    assert all(a in found.needs[b] for a, b in zip(path.tasks, path.tasks[1:], strict=False))


def test_one_output_and_one_input():
    def run(x, y):
        return {"a": x * y, "b": (x * y + y) * y, "c": y + y}

    found = tasks(fl.trace(run, {"x": (), "y": ()}))
    assert critical_path(found, output="a").pair == (1, 0)
    assert critical_path(found).pair == (2, 1)
    from_x = {"y": -inf}
    assert critical_path(found, arrival=from_x, output="b").length == 3
    assert critical_path(found, arrival=from_x, output="c").length == -inf
    assert critical_path(found, arrival={"x": 10}, output="c").length == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"latency": {"mul": 1}}, "add.*table has mul"),
        ({"arrival": {"z": 0}}, "'z'.*x, y"),
        ({"output": "tau"}, "'tau'.*out"),
    ],
)
def test_unknown_names_are_refused(options, words):
    found = tasks(fl.trace(lambda x, y: x * y + x, {"x": (), "y": ()}))
    with pytest.raises(ValueError, match=words):
        critical_path(found, **options)


# Schedules


def legal(plan):
    """By the definition, cycle by cycle."""
    for k, needs in enumerate(plan.tasks.needs):
        assert plan.start[k] >= max((plan.end(a) for a in needs), default=0)
    return {pool: max(cycles.values()) for pool, cycles in repeated(plan, 10**6, 1).items()}


def repeated(plan, period, times):
    """For each pool the units at work in each cycle, with the whole started several times."""
    busy = {"add": Counter(), "dsp": Counter()}
    for k in plan.tasks.work():
        kind = plan.tasks.kinds[k]
        for n in range(times):
            first = plan.start[k] + n * period
            busy["add" if kind == "add" else "dsp"].update(
                range(first, first + UNITS[kind].interval)
            )
    return {pool: cycles for pool, cycles in busy.items() if cycles}


@given(works())
@settings(max_examples=examples(60), deadline=None)
def test_the_earliest_and_the_latest_schedule(found):
    early, late = asap(found, UNITS), alap(found, UNITS)
    shortest = critical_path(found, LATENCY).length
    assert early.length == late.length == shortest
    assert early.start[: len(found)] == tuple(
        int(t - LATENCY.get(kind, 0))
        for t, kind in zip(availability(found, LATENCY), found.kinds, strict=True)
    )
    assert all(a <= b for a, b in zip(early.start, late.start, strict=True))
    users = found.users()
    for k in found.work():  # nothing could start later
        ends = [late.start[user] for user in users[k]]
        assert late.end(k) == min(ends, default=shortest)
    for plan in (early, late, alap(found, UNITS, shortest + 3)):
        plan.verify()
        assert legal(plan) == plan.needed


@given(works(), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=examples(80), deadline=None)
def test_list_scheduling_keeps_to_the_units_and_leaves_none_idle(found, adders, dsps):
    pools = {UNITS[found.kinds[k]].pool or "add" for k in found.work()}
    counts = {pool: n for pool, n in (("add", adders), ("dsp", dsps)) if pool in pools}
    plan = scheduled(found, UNITS, counts)
    plan.verify()
    assert all(most <= counts[pool] for pool, most in legal(plan).items())
    busy = plan.busy()
    work = {pool: cycles.total() for pool, cycles in busy.items()}
    for pool, share in plan.utilisation.items():
        assert share == work[pool] / (plan.length * counts[pool])
    for k in found.work():  # between being ready and its start all units were busy
        pool = UNITS[found.kinds[k]].pool or "add"
        ready = max((plan.end(a) for a in found.needs[k]), default=0)
        assert all(busy[pool][cycle] == counts[pool] for cycle in range(ready, plan.start[k]))


@given(works(), st.integers(1, 2))
@settings(max_examples=examples(60), deadline=None)
def test_the_whole_can_start_again_after_a_period_and_no_sooner(found, dsps):
    if not set(found.kinds) & {"mul", "div"}:
        return
    plan = scheduled(found, UNITS, {"dsp": dsps})
    fits = [
        max(repeated(plan, period, plan.length // period + 3)["dsp"].values()) <= dsps
        for period in range(1, plan.length + 12)
    ]
    assert plan.period == 1 + fits.index(True)


def test_the_longest_chain_goes_first():
    """Two products at once on one unit: the one that a long chain waits for is done first."""
    found = Tasks(
        ["input", "mul", "mul", "add", "add"], [(), (0,), (0,), (2,), (3,)], ["x", *"abcd"]
    )
    plan = scheduled(found, UNITS, {"dsp": 1})
    assert plan.start[1:] == (2, 0, 4, 5)
    assert (plan.length, plan.utilisation) == (6, {"dsp": 4 / 6, "add": 2 / 6})


def test_a_unit_of_its_own_for_each_task_is_busy_as_long_as_it_takes():
    found = Tasks(["input", "div", "add"], [(), (0,), (1,)], ["x", "a", "b"])
    assert asap(found, UNITS).period == 9
    assert asap(found, UNITS | {"div": ProcessingUnit(9)}).period == 1


def test_a_wrong_schedule_is_found():
    found = tasks(fl.trace(lambda x: x[0] * x[1] + x[2], {"x": 3}))
    (product,) = [k for k in found.work() if found.kinds[k] == "mul"]
    (total,) = [k for k in found.work() if found.kinds[k] == "add"]
    plan = scheduled(found, UNITS, {"dsp": 1})
    moved = lambda k, cycle: replace(
        plan, start=tuple(cycle if i == k else s for i, s in enumerate(plan.start))
    )
    with pytest.raises(ValueError, match=f"task {total} .*cycle 3.*needs task {product}.*cycle 4"):
        moved(total, 3).verify()
    with pytest.raises(ValueError, match="cycle -1"):
        moved(product, -1).verify()
    with pytest.raises(ValueError, match="1 starts for 5 tasks"):
        replace(plan, start=(0,)).verify()


def test_too_few_units_are_found():
    found = tasks(fl.trace(lambda x: [x[0] * x[1], x[1] * x[2]], {"x": 3}))
    start = asap(found, UNITS).start
    TaskSchedule(found, UNITS, start, {"dsp": 2}).verify()
    with pytest.raises(ValueError, match=r"cycle [01] wants 2 units of dsp: there are 1"):
        TaskSchedule(found, UNITS, start, {"dsp": 1}).verify()


@pytest.mark.parametrize("counts", [{"dsp": 0}, {"multiplier": 4}])
def test_units_that_are_not_there_are_refused(counts):
    found = tasks(fl.trace(lambda x: x[0] * x[1], {"x": 2}))
    with pytest.raises(ValueError, match="wanted 1 or more of dsp"):
        scheduled(found, UNITS, counts)


def test_a_length_below_the_longest_chain_is_refused():
    found = tasks(fl.trace(lambda x: x[0] * x[1], {"x": 2}))
    with pytest.raises(ValueError, match=r"length is 3.*4 cycles"):
        alap(found, UNITS, 3)


def test_a_large_graph_is_scheduled(iiwa):
    """dFD of the iiwa14 on 200 multipliers and all the adders that it wants."""
    found = tasks(iiwa.graph("forward_dynamics_derivatives"))
    units = {
        "mul": ProcessingUnit(2),
        "add": ProcessingUnit(1),
        "div": ProcessingUnit(8),
        "trig": ProcessingUnit(8),
    }
    with pytest.raises(ValueError, match="units has no 'select'"):
        scheduled(found, units, {"mul": 200})
    units["select"] = ProcessingUnit(1)
    plan = scheduled(found, units, {"mul": 200})
    plan.verify()
    products = np.count_nonzero([kind == "mul" for kind in found.kinds])
    assert plan.needed["mul"] <= 200
    assert plan.period >= ceil(products / 200)
    assert plan.length >= critical_path(found, {k: u.latency for k, u in units.items()}).length
