"""How long a state takes in fixed point: node by node in NumPy, in machine code, and in float64."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from fixed_loop_formats import Figures, Job

import featherlane as fl
from featherlane.api.fixed import input_ranges
from featherlane.api.model import Model
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fixed.machine import MachineEvaluator
from featherlane.functions.fixed import FixedFunction

BATCH = 4096
FUNCTIONS = ("inverse_dynamics", "forward_dynamics", "forward_dynamics_derivatives_from")
FORMATS = ("q16.16", "fitted")


def jobs(rounds: int) -> Iterator[Job]:
    model = fl.load("iiwa14")
    for name in FUNCTIONS:
        for format in FORMATS:
            yield Job(name, format, partial(_run, model, name, format, rounds))


def _run(model: Model, name: str, format: str, rounds: int) -> Figures:
    function = model.function(name, backend="fixed", format=format)
    assert isinstance(function, FixedFunction)
    states = input_ranges(model, function.inputs, {}, states=BATCH)[1]
    golden = Evaluator(function.datapath)
    start = time.perf_counter()
    machine = MachineEvaluator(golden)
    yield "seconds to compile, or to load", time.perf_counter() - start
    exact = model.function(name)
    for count in (1, BATCH):
        few = {name: x[:count] for name, x in states.items()}
        integers, _ = quantised(function.datapath, few)
        calls: dict[str, Callable[[], Any]] = {
            "NumPy": partial(golden, integers),
            "machine code": partial(machine, integers),
            "float64": partial(exact, *few.values(), threads=1),
        }
        seconds: dict[str, list[float]] = {what: [] for what in calls}
        for _ in range(rounds):
            for what, call in calls.items():
                seconds[what].append(_seconds(call))
        for what, found in seconds.items():
            yield f"us a state, {count} states, {what}", median(found) / count * 1e6


def _seconds(call: Callable[[], Any]) -> float:
    """Processor time of a call, over 10 ms or more."""
    calls, passed = 0, 0.0
    start = time.thread_time()
    while passed < 0.01:
        call()
        calls, passed = calls + 1, time.thread_time() - start
    return passed / calls
