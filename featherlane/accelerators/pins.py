"""The routed netlist of a bitstream against its function, at the pins of the serial line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from featherlane.accelerators import host
from featherlane.backends.fpga.serial.harness import MOST_BOARDS
from featherlane.backends.fpga.serial.host import SerialDriver

FEWEST = 8  # states for which a simulation of many boards is worth its compilation
PASSES = 3  # of the self-test: its states run 2^3 times, back to back


class PinCase(NamedTuple):
    """States that a netlist computes. function: its name in a design of several, else None;
    inputs, results: arrays (states, *shape) by name, the results by the golden model.
    """

    function: str | None
    inputs: Mapping[str, Any]
    results: Mapping[str, Any]

    def share(self, number: int, boards: int) -> PinCase:
        """The states of one of some boards."""
        inputs, results = (
            {name: x[number::boards] for name, x in arrays.items()}
            for arrays in (self.inputs, self.results)
        )
        return PinCase(self.function, inputs, results)


class PinCheck(NamedTuple):
    """The outcome of driving a routed netlist through the pins of its serial line.

    states: how many were computed; equal: those whose results have the bits of the golden model, in
    all entries; self_test: whether the self-test passed, at the full rate of the pipeline;
    seconds: of a processor, for the simulation.
    """

    states: int
    equal: int
    self_test: bool
    seconds: float

    @property
    def passed(self) -> bool:
        """All states and the self-test are right."""
        return self.self_test and self.equal == self.states

    def __str__(self) -> str:
        """The result in words."""
        return (
            f"{self.equal:,} of {self.states:,} states right, to the bit, self-test at full rate "
            f"{'passed' if self.self_test else 'FAILED'} ({self.seconds:.0f} s of a processor)"
        )


def check_at_pins(device: SerialDriver, cases: Iterable[PinCase]) -> PinCheck:
    """Returns how many states a netlist computes right. device: of `host.simulated`."""
    states, equal, began = 0, 0, process_time()
    for case in cases:
        results = device.run(case.inputs, case.function, saturate=True).results  # as the model
        right = [
            (np.asarray(results[name]) == wanted).reshape(len(wanted), -1).all(axis=1)
            for name, wanted in case.results.items()
        ]
        states += len(right[0])
        equal += int(np.logical_and.reduce(right).sum())
    tested = device.self_test(PASSES).passed
    return PinCheck(states, equal, tested, process_time() - began)


def check_boards(folder: str | Path, cases: Sequence[PinCase]) -> PinCheck:
    """Returns how many states the routed netlist of a folder computes right, on as many boards at
    once as a word has bits: each takes a share of each case, by its driver.
    """
    began = process_time()
    states = max((len(x) for case in cases for x in case.results.values()), default=1)
    boards = min(states, MOST_BOARDS) if states >= FEWEST else 1
    shares = [[case.share(n, boards) for case in cases] for n in range(boards)]
    checks = host.simulated_boards(folder, boards, lambda n, board: check_at_pins(board, shares[n]))
    return PinCheck(
        sum(check.states for check in checks),
        sum(check.equal for check in checks),
        all(check.self_test for check in checks),
        process_time() - began,
    )
