"""What drivers take: the same calls for boards behind AXI streams and behind a serial line."""

import shutil
from functools import cache

import numpy as np
import pytest

import featherlane as fl
from featherlane.backends.fpga.board.host import BoardDriver, BoardFacts
from featherlane.backends.fpga.serial.host import SerialDriver
from featherlane.backends.fpga.serial.simulated import simulated_line

pytestmark = pytest.mark.skipif(
    not (shutil.which("verilator") and shutil.which("g++")),
    reason="verilator or g++ is not installed",
)
NAMES = ["inverse_dynamics", "mass_matrix"]
ZEROS = np.zeros(2)
STATE = {"q": ZEROS, "v": ZEROS, "a": ZEROS}
DRIVERS = pytest.mark.parametrize("kind", ["axi", "serial"])


def driver(made, kind):
    if kind == "axi":
        return made.board(64).simulated(tasks_per_packet=64)
    serial = made.board_design.serial
    return SerialDriver(serial.facts, simulated_line(serial))


@cache
def pipeline():
    return fl.accelerator(fl.load("double_pendulum"), NAMES[0], interval=4, board="ulx3s")


@cache
def network():
    return fl.multifunction(fl.load("double_pendulum"), NAMES, interval=2, board="ulx3s")


@cache
def of_one(kind):
    return driver(pipeline(), kind)


@cache
def of_two(kind):
    return driver(network(), kind)


@DRIVERS
def test_a_design_takes_its_own_name_and_no_other_one(kind):
    device, states = of_one(kind), pipeline().samples(5)
    tau = device(states)["tau"]
    for name in (NAMES[0], [NAMES[0]] * 5):
        assert np.array_equal(device(states, name)["tau"], tau)
    told = "^function is 'mass_matrix': wanted 'inverse_dynamics', the one that the design has"
    for call in (device, device.run):
        with pytest.raises(ValueError, match=told):
            call(states, "mass_matrix")


@DRIVERS
def test_a_name_does_not_saturate(kind):
    far = STATE | {"q": [0.0, 1e6]}
    for call in (of_one(kind), of_one(kind).run):
        with pytest.raises(ValueError, match=r"^q\[1\] is 1000000: wanted"):
            call(far, NAMES[0])
        with pytest.raises(TypeError, match=r"a third argument is True: .* saturate= by keyword"):
            call(far, NAMES[0], True)
        with pytest.raises(ValueError, match=r"^function is True: wanted 'inverse_dynamics'"):
            call(far, True)
        with pytest.raises(ValueError, match=r"^saturate is 1: wanted True or False"):
            call(far, saturate=1)
    assert of_one(kind).run(far, NAMES[0], saturate=True).saturated == {"q": 1}


@DRIVERS
def test_inputs_go_by_keyword_or_in_a_dict(kind):
    device, states = of_one(kind), pipeline().samples(3)
    assert np.array_equal(device(**states)["tau"], device(states)["tau"])
    assert device.run(**states, function=NAMES[0], saturate=False).saturated == {}
    with pytest.raises(TypeError, match=r"^satrate= beside inputs: .*; did you mean 'saturate'"):
        device(states, satrate=True)
    with pytest.raises(ValueError, match=r"^inputs has q: wanted q, v, a by name"):
        device(q=ZEROS)
    with pytest.raises(ValueError, match=r"^inputs is array.*: wanted a dict of arrays, q, v, a"):
        device(ZEROS, ZEROS, ZEROS)


@DRIVERS
@pytest.mark.parametrize(
    ("q", "told"),
    [
        (np.zeros((2, 5)), r"^q has shape \(2, 5\), wanted \(\.\.\., 2\): states .*, pass q\.T"),
        (np.zeros(3), r"^q has shape \(3,\), wanted \(\.\.\., 2\)$"),
        (1j * ZEROS, "^q has dtype complex128: wanted real numbers, float32 or float64$"),
        (None, "^q is None: wanted real numbers"),
        ("ab", "^q is 'ab': wanted real numbers"),
        ([[0.0], [0.0, 1.0]], "^q is not an array of numbers: "),
    ],
    ids=str,
)
def test_bad_arrays(kind, q, told):
    with pytest.raises(ValueError, match=told):
        of_one(kind)(STATE | {"q": q})


@DRIVERS
def test_each_state_may_want_a_function_of_its_own(kind):
    """Inputs that the function of a state does not read may be anything."""
    device, states = of_two(kind), network().samples(NAMES[0], 4)
    tau, mass = device(states, NAMES[0]), device({"q": states["q"]}, NAMES[1])
    assert (tau.keys(), mass.keys()) == ({"tau"}, {"M"})
    assert np.array_equal(mass["M"], network().function(NAMES[1])(states["q"]))
    names = np.array([NAMES[0], NAMES[1], NAMES[1], NAMES[0]])
    masses = names == NAMES[1]
    odd = {**states, "v": states["v"].copy(), "a": states["a"].copy()}
    odd["v"][1], odd["a"][1], odd["a"][2] = np.nan, np.inf, 1e9
    codes = {"function": [device.facts.functions[name].code for name in names]}
    for run in (device.run(odd, names), device.run(odd, names.tolist()), device.run(odd | codes)):
        assert not run.saturated
        assert np.array_equal(run.results["M"][masses], mass["M"][masses])
        assert np.array_equal(run.results["tau"][~masses], tau["tau"][~masses])
        assert np.isnan(run.results["tau"][masses]).all()
    assert device.run(odd, names).results.keys() == {"tau", "M"}
    for unread in (odd | {"v": states["v"]}, odd | {"a": states["a"]}):
        device(unread, names)
        with pytest.raises(ValueError, match=r"^[av]\[1, \d\] \(state 1\) is (NaN|inf)"):
            device(unread, NAMES[0])
    both = device({**STATE, "q": ZEROS}, NAMES)
    assert both["M"].shape == (2, 2, 2)


@DRIVERS
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (None, "^function is None: wanted 'inverse_dynamics' or 'mass_matrix'$"),
        ("mass_matrx", "^function is 'mass_matrx': wanted .*; did you mean 'mass_matrix'"),
        (["mass_matrix", 2], r"^function\[1\] is 2: wanted 'inverse_dynamics' or 'mass_matrix'$"),
        ([], r"^function is \[\]: wanted 'inverse_dynamics' or"),
        ([["mass_matrix"], []], r"^function\[0\] is \['mass_matrix'\]: wanted"),
    ],
    ids=str,
)
def test_bad_functions(kind, function, told):
    with pytest.raises(ValueError, match=told):
        of_two(kind)({"q": ZEROS}, function)


@DRIVERS
def test_inputs_are_those_of_the_function(kind):
    device = of_two(kind)
    with pytest.raises(ValueError, match=r"^inputs has q, v, a: wanted q of mass_matrix by name"):
        device(STATE, "mass_matrix")
    with pytest.raises(ValueError, match=r"^inputs has q: wanted q, v, a of mass_matrix and inv"):
        device({"q": ZEROS}, NAMES[::-1])


@DRIVERS
def test_drivers_say_what_they_drive(kind):
    ends = {"axi": "a simulation of its streams", "serial": "a simulation of its pins"}
    names = {"axi": "BoardDriver", "serial": "SerialDriver"}
    text = repr(of_two(kind))
    name = of_two(kind).facts.name
    assert text.startswith(f"<{names[kind]} of {name}: {', '.join(NAMES)}; {ends[kind]}, ")
    assert f": {NAMES[0]}; " in repr(of_one(kind))


def test_files_of_earlier_versions_have_no_names(tmp_path):
    """Their drivers work without, and say so."""
    made = pipeline().board(64)
    data = made.facts.to_json()
    assert BoardFacts.from_json(data).functions == made.facts.functions
    del data["functions"]
    device = BoardDriver(BoardFacts.from_json(data), made.simulated(8).transport, 8)
    states = pipeline().samples(3)
    assert np.array_equal(device(states)["tau"], of_one("axi")(states)["tau"])
    assert "a function without a name" in repr(device)
    with pytest.raises(
        ValueError, match=r"^function is 'x': the design has one function, leave it"
    ):
        device(states, "x")


def test_simulations_saturate_by_keyword():
    with pytest.raises(TypeError, match="positional"):
        pipeline().simulate(STATE, "verilator", 0, 1, True)
    with pytest.raises(ValueError, match=r"^saturate is 'yes': wanted True or False"):
        pipeline().simulate(STATE, saturate="yes")


def test_samples_tell_their_order():
    with pytest.raises(ValueError, match=r"^function is 4: wanted .*; the order is function, sta"):
        network().samples(4, "mass_matrix")
    with pytest.raises(ValueError, match=r"^function is 4: wanted 'inverse_dynamics' or 'mass_ma"):
        network().samples(4, 4)


def test_the_page_shows_a_call_that_works():
    assert 'driver({"q": q, "v": v, "a": a}, "inverse_dynamics")' in str(network().board(64))
    assert 'driver({"q": q, "v": v, "a": a})' in str(pipeline().board(64))
