"""Inputs beyond the ranges that formats were assigned for are refused by all that a user calls."""

import json
import pickle
import shutil

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.fixed.input_limits import NO_RANGES, entry_limits
from featherlane.backends.fpga.board.host import BoardFacts
from featherlane.backends.fpga.serial.host import SerialDriver, SerialFacts
from featherlane.backends.fpga.serial.simulated import simulated_line

needs_verilator = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)
FAST = {"q": [0.3, 0.4], "v": [9.0, -9.0], "tau": [0.2, -0.1]}
TOLD = r"^v\[0\] is 9: wanted -8 to 8, the range that formats were assigned for; .*{}, ranges= of "
RANGES = {"v": (-10.0, 10.0), "a": (-1000.0, 1000.0)}
SATURATE = r"saturate=True takes the nearest number in it"
SATURATING = r"saturating\(\) of the function takes the nearest number in it"


@pytest.fixture(scope="module")
def robot():
    return fl.load("double_pendulum")


@pytest.fixture(scope="module")
def made(robot):
    return fl.accelerator(robot, "forward_dynamics", interval=4, format="fitted18")


@pytest.fixture(scope="module")
def network(robot):
    names = ["inverse_dynamics", "mass_matrix"]
    ranges = {"q": (0.5, 1.5), "v": (1.0, 3.0)}  # without 0
    return fl.multifunction(
        robot, names, interval=2, board="ulx3s", format="fitted18", ranges=ranges
    )


@pytest.mark.parametrize("format", ["fitted18", "proved"])
def test_functions_refuse_what_is_beyond_its_range(robot, format):
    function = robot.function("forward_dynamics", backend="fixed", format=format)
    with pytest.raises(ValueError, match=TOLD.format(SATURATING) + ".*model.function widens it$"):
        function(**FAST)
    saturating = pickle.loads(pickle.dumps(function.saturating()))
    at_the_end = {**FAST, "v": [8.0, -8.0]}
    assert np.array_equal(saturating(**FAST), function(**at_the_end))
    assert saturating.report.saturated == {"v": 2}
    assert not function.report.saturated
    assert function.errors(**FAST).largest["a"] > 1
    assert function.report.saturated == {"v": 2}
    with pytest.raises(ValueError, match=r"^v\[1, 0\] \(state 1\) is -inf: wanted -8 to 8, the ra"):
        function(FAST["q"], [[0, 0], [-np.inf, 0]], FAST["tau"])


def test_ranges_widen_what_functions_take(robot):
    options = {"backend": "fixed", "format": "fitted", "ranges": RANGES}
    function = robot.function("forward_dynamics", **options)
    low, high = function.limits["v"]
    assert (low.tolist(), high.tolist()) == ([-10.0, -10.0], [10.0, 10.0])
    exact = robot.forward_dynamics(**FAST)
    assert np.allclose(function(**FAST), exact, rtol=0.01)


def test_ranges_decide_nothing_in_uniform_formats(robot):
    function = robot.function("forward_dynamics", backend="fixed", format="q16.16")
    assert np.allclose(function(**FAST), robot.forward_dynamics(**FAST), rtol=0.01)
    assert function.limits["v"][1].tolist() == [2**15 - 2**-16] * 2
    with pytest.raises(ValueError, match=r"the range of its format; .*saturating.* in it$"):
        function(FAST["q"], [1e5, 0], FAST["tau"])


def test_ends_of_ranges_are_in_them():
    """So are numbers that rounding to float32, or to the format, brought beyond them."""
    robot = fl.load("iiwa14")
    for format in ("fitted18", "proved"):
        function = robot.function("inverse_dynamics", backend="fixed", format=format)
        ends = function.limits
        for at in range(2):
            state = {name: pair[at] for name, pair in ends.items()}
            exact = function(**state)
            for dtype in (np.float32, np.float16):
                rounded = {name: x.astype(dtype) for name, x in state.items()}
                if dtype is np.float32:
                    assert np.array_equal(function.saturating()(**rounded), function(**rounded))
                    assert not function.report.saturated
                else:  # of a format so much coarser, some is beyond
                    with pytest.raises(ValueError, match="the range that formats were assigned"):
                        function(**rounded)
            assert np.isfinite(exact).all()


def test_limits_of_an_entry():
    ranges = {"x": ((-1.0, -8.0), (1.0, 8.0))}
    assert entry_limits(-128, 127, 0.125, NO_RANGES, "x", 0) == (-128, 127, -128, 127)
    assert entry_limits(-128, 127, 0.125, ranges, "y", 0) == (-128, 127, -128, 127)
    assert entry_limits(-128, 127, 0.125, ranges, "x", 0) == (-8, 8, -8, 8)
    assert entry_limits(-64, 63, 0.125, ranges, "x", 1) == (-64, 63, -64, 64)  # 8 is taken as 7.875
    assert entry_limits(-(2**31), 2**31 - 1, 2.0**-26, ranges, "x", 0)[2:] == (
        -(2**26) - 8,
        2**26 + 8,
    )
    assert entry_limits(0, 0, np.inf, ranges, "x", 0) == (0, 0, 0, 0)  # not read


@needs_verilator
def test_simulations_and_boards_refuse_what_is_beyond_its_range(made):
    board = made.board(64)
    device, wanted = board.simulated(), made.function.saturating()(**FAST)
    for run in (device, device.run, made.simulate):
        with pytest.raises(ValueError, match=TOLD.format(SATURATE)):
            run(FAST)
    assert device.read("tasks_in") == 0
    for run in (device.run, made.simulate):
        saturated = run(FAST, saturate=True)
        assert np.array_equal(saturated.results["a"], wanted)
        assert saturated.saturated == {"v": 2}
    ends = {name: [low, high] for name, (low, high) in made.function.limits.items()}
    assert np.array_equal(device(ends)["a"], made.function(**ends))


def test_facts_of_boards_have_ranges(made, network):
    """Facts of designs before have none: the formats count then."""
    data = json.loads(json.dumps(made.board(64).facts.to_json()))
    assert data["ranges"]["v"] == [[-8.0, -8.0], [8.0, 8.0]]
    facts = BoardFacts.from_json(data)
    assert facts == made.board(64).facts
    inputs = {name: np.reshape(x, (1, 2)) for name, x in FAST.items()}
    buffer = np.zeros((1, facts.tasks.size), np.uint8)
    assert facts.tasks.encode(inputs, buffer) == {"v": 2}
    del data["ranges"]
    assert BoardFacts.from_json(data).tasks.encode(inputs, buffer) == {}
    serial = json.loads(json.dumps(network.board_design.serial.facts.to_json()))
    assert serial["ranges"].keys() == {"q", "v", "a"}
    assert SerialFacts.from_json(serial).tasks.ranges["q"] == ((0.5, 0.5), (1.5, 1.5))
    uniform = fl.accelerator(made.model, "forward_dynamics", interval=4)
    assert "ranges" not in uniform.board(64).facts.to_json()


@needs_verilator
def test_drivers_and_tasks_of_several_functions_refuse_what_is_beyond_its_range(network):
    """Also of a range without 0, of an input that the function has not."""
    told = r"q\[1\] is 1\.6: wanted 0\.5 to 1\.5, the range that formats were assigned for; .*"
    serial = network.board_design.serial
    device = SerialDriver(serial.facts, simulated_line(serial))
    state = {"q": [1.0, 1.6]}
    with pytest.raises(ValueError, match=f"^{told}{SATURATE}, ranges= of "):
        device(state, "mass_matrix")
    saturated = device.run(state, "mass_matrix", saturate=True)
    assert saturated.saturated == {"q": 1}
    at_the_end = device({"q": [1.0, 1.5]}, "mass_matrix")["M"]
    assert np.array_equal(saturated.results["M"], at_the_end)
    for run in (network.simulate, network.expected):
        with pytest.raises(ValueError, match=rf"^task 1 \(mass_matrix\): {told}ranges= of "):
            run([("mass_matrix", {"q": [1.0, 1.5]}), ("mass_matrix", state)])
    inputs = {"q": [1.0, 1.0], "v": [100.0, 2.0], "a": [0.0, 0.0]}
    codes = {name: function.code for name, function in serial.facts.functions.items()}
    with pytest.raises(ValueError, match=r"^v\[0\] is 100: wanted 1 to 3, "):
        device({**inputs, "function": codes["inverse_dynamics"]})
    mixed = device({**inputs, "a": [np.nan, 0], "function": codes["mass_matrix"]})
    assert np.array_equal(mixed["M"], network.function("mass_matrix")(inputs["q"]))


def test_reports_have_the_limits_of_functions(made):
    for name, ends in made.function.limits.items():
        assert made.figures["ranges"][name] == [x.tolist() for x in ends]
        states = made.samples(300)[name]
        assert ((ends[0] <= states) & (states <= ends[1])).all()
