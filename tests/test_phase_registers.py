"""Control of designs for boards: registers of the phase in each module and unit, what they enable,
and shifters that operations share.
"""

import re
import shutil
from functools import cache

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.evaluate import evaluate
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga import devices
from featherlane.backends.fpga.cost import DesignCost
from featherlane.backends.fpga.part import MOST_COPIES, MOST_ENABLED
from featherlane.backends.fpga.shifts import exponents
from featherlane.program.graph import Graph, Output

needs_icarus = pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")


@cache
def design(robot="double_pendulum", function="forward_dynamics", interval=5):
    """Of shared multipliers, also where these are too many to be routed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DesignCost, "fits", True)
        choices = {"board": "ulx3s", "datapath": "shared"}
        return fl.accelerator(fl.load(robot), function, interval=interval, **choices)


@needs_icarus
@pytest.mark.parametrize("interval", [2, 3, 5])
def test_states_are_right_from_the_first_one_after_a_reset(interval):
    """Copies of the phase are late by a cycle, and right in time for the first state."""
    made = design(interval=interval)
    (name,), states = made.function.outputs, made.samples(12)
    for stalls in (0, 60):
        found = made.simulate(states, "icarus", stalls)
        assert np.array_equal(found.results[name], made.function(**states))


def test_modules_take_the_phase_from_registers_and_decode_copies():
    """Logic between these registers and others would have wires across the chip on both sides."""
    sources = design("iiwa14", "forward_dynamics", 16).design.sources
    datapath = sources.pop("iiwa14_forward_dynamics_datapath.sv")
    ports = re.findall(r"\.phase_\d+\((phase_\d+)\)", datapath)
    registers = set(ports)
    for name in registers:
        assert re.search(rf"\(\* keep \*\) logic \[3:0\] [\w, ]*\b{name}\b", datapath)
        assert f"{name} <= phase_next;" in datapath
    copies = 0
    for text in sources.values():
        if "in_phase_" in text or "_phase <= phase_" in text:
            assert "phase_next" not in text
            assert not re.search(r"phase_\d+ ==|case \(phase_\d+\)", text)
            copies += len(re.findall(r" <= phase_\d+;", text))
    assert len(ports) < copies <= MOST_COPIES * len(registers)


def enabled(text):
    """The bits of registers that each register of the phase enables, by its name."""
    widths = {}
    for high, names in re.findall(r"logic signed \[(\d+):0\] ([\w, \n]+)", text):
        widths |= dict.fromkeys(re.findall(r"\w+", names), int(high) + 1)
    bits = {}
    for flag, rows in re.findall(r"if \((\w+)\) begin\n(.*?)\n  end", text, re.DOTALL):
        targets = re.findall(r"^ *(\w+) <= ", rows, re.MULTILINE)
        bits[flag] = sum(widths.get(name, 1) for name in targets)
    return bits


def test_one_register_enables_few_others():
    sources = design("hyq", "inverse_dynamics", 8).design.sources
    inputs = enabled(sources["hyq_inverse_dynamics_inputs.sv"])
    assert sum(inputs.values()) > 4 * MOST_ENABLED  # so that there is something to divide
    every = [bits for text in sources.values() for bits in enabled(text).values()]
    assert max(every) <= MOST_ENABLED
    top = sources["hyq_inverse_dynamics.sv"]
    parts = re.findall(r"if \(takes_\d\) given\[(\d+):(\d+)\] <= in_data\[\1:\2\];", top)
    assert [int(low) for _, low in parts] == [*range(0, design("hyq", "inverse_dynamics", 8).design
                                                     .input_bits, MOST_ENABLED)]  # fmt: skip
    assert "in_ready) given" not in top


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("fraction", [-3, 0, 4, 9])
def test_exponents_are_those_that_a_number_can_have(fraction, negative):
    graph = Graph()
    graph.inputs = {"x": (1,)}
    x = graph.node("input", value=("x", 0))
    k = graph.node("exponent", x)
    signed = graph.node("neg", k) if negative else k
    power = graph.node("power_of_two", signed)
    scaled = graph.node("mul", x, power)
    graph.outputs = {"k": Output((), (signed,)), "y": Output((), (scaled,))}
    wide = Format(8, 0)
    formats = [Format(6, fraction), *[wide] * (3 + negative - 1), Format(12, 6)]
    datapath = Datapath(graph, tuple(formats))
    values = np.arange(-32, 32) / 2.0**fraction
    found = evaluate(datapath, {"x": values[:, None]}).integers["k"]
    assert (found.min(), found.max()) == exponents(datapath, power)


def test_narrow_formats_of_exponents_wrap():
    """Where a format does not hold the exponents, any that it holds may come."""
    graph = Graph()
    graph.inputs = {"x": (1,)}
    x = graph.node("input", value=("x", 0))
    k = graph.node("exponent", x)
    power = graph.node("power_of_two", k)
    graph.outputs = {"y": Output((), (graph.node("mul", x, power),))}
    formats = (Format(18, 10), Format(4, 0), Format(8, 0), Format(18, 10))
    assert exponents(Datapath(graph, formats), power) == (-128, 127)


def test_the_whole_design_shares_shifters(monkeypatch):
    made = design("iiwa14", "forward_dynamics", 16)
    shifts = sum(operator.kind == "shift" for operator in made.pipeline.operators if operator)
    assert shifts == 20
    assert made.pipeline.kinds["shift"] == 2
    operators = devices.operators

    def alone_operators(datapath, device, apart=False):
        rows = {name: row for name, row in device.delays.items() if name != "shared_shift"}
        return operators(datapath, device._replace(delays=rows), apart)

    monkeypatch.setattr(devices, "operators", alone_operators)
    alone = design.__wrapped__("iiwa14", "forward_dynamics", 16)
    assert alone.pipeline.kinds["shift"] == shifts
    assert made.cost.kinds["shift"].luts < 0.15 * alone.cost.kinds["shift"].luts
    assert made.cost.total.luts < 0.9 * alone.cost.total.luts + 500
    states = made.samples(20)
    assert np.array_equal(made.function(**states), alone.function(**states))
