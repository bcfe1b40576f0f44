"""Functions of robots as pipelines in fixed point: from a robot to simulated SystemVerilog."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import textbook
from repetition import repeated

import featherlane as fl
from featherlane.backends.fixed.evaluate import evaluate
from featherlane.program.graph import Graph
from featherlane.tools import cli

DERIVATIVES = "inverse_dynamics_derivatives"
SIMULATORS = ["icarus", "verilator"]
PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}


@pytest.fixture(scope="module")
def pendulum():
    return fl.load("double_pendulum")


def needs(simulator):
    if shutil.which(PROGRAMS[simulator]) is None:
        pytest.skip(f"{PROGRAMS[simulator]} is not installed")


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize(
    ("function", "interval", "format"),
    repeated(
        [
            ("forward_dynamics", 3, "fitted"),
            ("inverse_dynamics", 1, "proved"),
            ("mass_matrix_inverse", 2, "proved"),
            ("forward_dynamics_derivatives", 5, "q16.16"),
        ]
    ),
)
def test_circuits_give_the_bits_of_the_datapath(pendulum, simulator, function, interval, format):
    needs(simulator)
    made = fl.accelerator(pendulum, function, interval=interval, format=format)
    states = made.samples(100)
    wanted = evaluate(made.function.datapath, states).integers
    for stalls in (0, 100):
        found = made.simulate(states, simulator, stalls)
        for name, x in wanted.items():
            assert np.array_equal(x, found.outputs[name]), name
        least = found.cycles.min()
        assert least >= made.latency
        assert stalls or found.cycles.max() == least


@pytest.mark.parametrize(
    ("simulator", "function", "f_ext", "frames", "format"),
    [
        ("icarus", "forward_dynamics_derivatives", "world", ["link2"], "fitted"),
        ("verilator", "inverse_dynamics", "body", [], "proved"),
        ("icarus", "forward_dynamics", "world", [], "proved"),
    ],
)
def test_wrenches_are_inputs(pendulum, simulator, function, f_ext, frames, format):
    """To the bit in a simulation, and near to what the model computes."""
    needs(simulator)
    options = {"interval": 6, "format": format, "f_ext": f_ext, "frames": frames}
    made = fl.accelerator(pendulum, function, **options)
    states = made.samples(60)
    assert states["f_ext"].shape == (60, len(frames) or pendulum.nbodies, 6)
    assert 100 < np.abs(states["f_ext"]).max() <= 128
    wanted = evaluate(made.function.datapath, states)
    found = made.simulate(states, simulator, 60)
    for name, x in wanted.integers.items():
        assert np.array_equal(x, found.outputs[name]), name
    assert not wanted.overflows
    wrench = states.pop("f_ext")
    given = {"f_ext": {name: wrench[:, k] for k, name in enumerate(frames)} or wrench}
    exact = getattr(pendulum, function)(**states, **given, f_ext_frame=f_ext)
    exact = [exact] if isinstance(exact, np.ndarray) else exact
    for x, name in zip(exact, made.function.outputs, strict=True):
        assert np.abs(found.results[name] - x).max() < 2e-4 * np.abs(x).max(), name


def test_torques_balance_wrenches_in_samples(pendulum):
    """Accelerations of sampled states are those of their range, not of forces without a balance."""
    made = fl.accelerator(pendulum, "forward_dynamics", interval=6, format="proved", f_ext="body")
    assert np.abs(made.function(**made.samples(200))).max() < 16.1


def test_a_state_enters_every_interval(pendulum):
    """Results of states that are fed back to back come at the interval."""
    needs("icarus")
    made = fl.accelerator(pendulum, "inverse_dynamics", interval=4)
    accepted = made.simulate(made.samples(20), "icarus").accepted
    assert set(np.diff(accepted)) == {4}


def test_a_function_computes_what_its_circuit_does(pendulum):
    made = fl.accelerator(pendulum, "mass_matrix")
    q = made.samples(50)["q"]
    M = made.function(q)
    assert np.abs(M - pendulum.mass_matrix(q)).max() < 1e-3
    assert np.array_equal(M * 2.0**16, np.rint(M * 2.0**16))  # q16.16


def test_longer_intervals_take_fewer_multipliers():
    model = fl.load("iiwa14")
    dsps = [
        fl.accelerator(model, "inverse_dynamics", interval=n, format="fitted").cost.total.dsps
        for n in (1, 4, 12)
    ]
    assert dsps == sorted(dsps, reverse=True)
    assert dsps[0] > 4 * dsps[2]


def test_a_divisor_without_bounds_leaves_errors_without_a_proof():
    made = fl.accelerator(fl.load("iiwa14"), "forward_dynamics", interval=12)
    results = made.facts["errors"]["forward_dynamics"]["results"]
    assert {name: x["proved_bound"] for name, x in results.items()} == {"a": None}
    assert "proved_bound: none" in str(made)
    assert json.loads(json.dumps(made.facts, allow_nan=False))["latency"] == {
        "forward_dynamics": made.latency
    }


def test_products_are_cut_for_the_multipliers_of_the_device(pendulum):
    """32 by 32 bits are four pieces of 27 by 18, and four of 18 by 18 with other widths."""
    xcvu9p, ecp5 = (
        fl.accelerator(pendulum, "mass_matrix", interval=4, device=name)
        for name in ("xcvu9p", "ecp5_85k")
    )
    assert (xcvu9p.design.tile[:2], ecp5.design.tile[:2]) == ((27, 18), (18, 18))
    assert ecp5.facts["device_multipliers"] >= xcvu9p.facts["device_multipliers"] > 0
    for made in (ecp5, xcvu9p):
        assert made.facts["device_multipliers"] == made.cost.total.dsps


def test_symmetric_matrices_are_read_and_given_once(pendulum):
    made = fl.accelerator(pendulum, "forward_dynamics_derivatives_from", interval=4)
    read = [made.design.datapath.graph.value[field.node] for field in made.design.inputs]
    assert [entry for name, entry in read if name == "minv"] == [0, 2, 3]
    assert len(fl.accelerator(pendulum, "mass_matrix", interval=4).design.outputs) == 2


def test_more_sharing_takes_no_more_multipliers():
    model = fl.load("iiwa14")
    module, whole = (
        fl.accelerator(model, "mass_matrix", interval=4, sharing=sharing).cost.total.dsps
        for sharing in ("module", "whole")
    )
    assert whole < module


def test_deferred_division_shortens_the_path_and_computes_the_same():
    model = fl.load("iiwa14")
    deferred, factor, mminvgen = (
        fl.accelerator(
            model, "mass_matrix_inverse", interval=4, algorithm=algorithm, format="fitted"
        )
        for algorithm in (None, "factor", "mminvgen")
    )
    assert deferred.latency < 0.8 * factor.latency < 0.6 * mminvgen.latency
    states = deferred.samples(200)
    wanted = model.mass_matrix_inverse(**states)
    for made in (deferred, factor, mminvgen):
        assert np.abs(made.function(**states) - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_a_design_that_is_too_large_names_the_interval_that_fits():
    with pytest.raises(
        fl.CompileError, match=r"interval 1 takes 1.. % of the DSPs.*interval 2 fits"
    ):
        fl.accelerator(fl.load("iiwa14"), "mass_matrix", device="ecp5_85k")


def test_generated_folders_are_simulations(tmp_path, capsys):
    command = ["generate", "double_pendulum", "--target", "verilog", "--output", str(tmp_path)]
    given = ["--function", "ID", "--interval", "2", "--format", "proved", "--json"]
    assert cli.main([*command, *given]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["functions"]
    design = json.loads((tmp_path / "design.json").read_text())
    assert answer["report"] == design["report"]
    assert design["report"]["errors"]["inverse_dynamics"]["overflows"] == 0
    assert design["interval"] == 2
    needs("icarus")
    sources = [str(p) for p in tmp_path.glob("*.sv")]
    subprocess.run(["iverilog", "-g2012", "-o", "a.vvp", *sources], cwd=tmp_path, check=True)
    told = subprocess.run(["vvp", "a.vvp"], cwd=tmp_path, capture_output=True, text=True)
    assert "20 states passed, 0 failed" in told.stdout


@pytest.mark.parametrize(
    ("format", "ranges", "told"),
    [
        ("q7.25", None, r"a signal overflows in \d+ of 200; wanted 'q10.22', which holds them"),
        ("q3.29", {"q": (-9, 9)}, "the constant 9.81 is beyond q3.29: wanted 5 bits"),
        (
            "q8.24",
            {"q": (-1e4, 1e4)},
            "inputs have q up to 9.* wanted 'q15.17', which holds",
        ),
        ("fitted", {"v": (-1e200, 1e200)}, "is inf in some"),
        ("proved", {"v": (-1e200, 1e200)}, "a signal is up to inf: wanted narrower ranges"),
        ("proved", {"q": (-1e5, 1e5)}, "give joints ranges of angles below 16,384 rad"),
    ],
)
def test_formats_that_overflow_are_refused(pendulum, format, ranges, told):
    ranges = {"v": (-10, 10), **(ranges or {})}
    with pytest.raises(fl.CompileError, match=told):
        fl.accelerator(pendulum, "inverse_dynamics", format=format, ranges=ranges)


def test_several_functions_have_a_folder_each(tmp_path, capsys):
    command = ["generate", "double_pendulum", "--target", "verilog", "--output", str(tmp_path)]
    assert cli.main([*command, "--function", "ID", "--function", "short=M"]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"inverse_dynamics", "short"}
    assert "of the DSPs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"interval": 0}, ValueError, "interval is 0: wanted a whole number of cycles"),
        ({"interval": 10**9}, ValueError, "interval is 1000000000: wanted .* 1 to 4096"),
        ({"name": "module"}, ValueError, "name is 'module': that is a word of SystemVerilog"),
        ({"name": 3}, ValueError, "name is 3: wanted letters"),
        ({"ranges": 5}, TypeError, "ranges is 5: wanted"),
        ({"interval": 2.5}, ValueError, "interval is 2.5"),
        ({"delays": []}, ValueError, r"delays is \[\]: xcvu9p has two_additions"),
        ({"algorithm": ["scan"]}, ValueError, r"algorithm is \['scan'\] of inverse_dynamics"),
        ({"frames": None}, TypeError, "frames is None: wanted a list"),
        ({"format": "q8"}, ValueError, "format is 'q8': wanted one of 'q16.16' and the like"),
        ({"device": "virtex"}, ValueError, "device is 'virtex': wanted one of 'ecp5_12k'"),
        ({"delays": "none"}, ValueError, "delays is 'none'"),
        ({"sharing": "all"}, ValueError, "sharing is 'all': wanted one of 'module'"),
        ({"clock": 0}, ValueError, "clock is 0: wanted MHz"),
        ({"clock": 400.0}, fl.CompileError, "250.0 MHz would do"),
        ({"ranges": {"x": (0, 1)}}, ValueError, "ranges names 'x'"),
        (
            {"function": "mass_matrix", "algorithm": "crba"},
            ValueError,
            "algorithm is 'crba' of mass_matrix: it has one algorithm",
        ),
        (
            {"function": "mass_matrix_inverse", "algorithm": "aba"},
            ValueError,
            "wanted one of 'deferred', 'factor', 'bounded', 'mminvgen'",
        ),
        ({"function": "inverse"}, ValueError, "there is no function 'inverse'"),
        ({"f_ext": "link2"}, ValueError, "f_ext is 'link2': wanted None, 'body' or 'world'"),
        ({"frames": ["link2"]}, ValueError, "frames without f_ext"),
        ({"f_ext": "body", "frames": "link2"}, TypeError, "frames is 'link2': wanted a list"),
        ({"f_ext": "body", "frames": ["link2"] * 2}, ValueError, "wanted each frame once"),
        ({"f_ext": "body", "frames": ["foot"]}, ValueError, "foot"),
        ({"f_ext": "body", "function": "mass_matrix"}, ValueError, "mass_matrix takes no f_ext"),
        (
            {"f_ext": "world", "function": DERIVATIVES, "algorithm": "body"},
            ValueError,
            "algorithm is 'body' with f_ext in the world's axes",
        ),
    ],
    ids=lambda x: "-".join(map(str, x)) if isinstance(x, dict) else "",
)
def test_bad_arguments(pendulum, options, error, told):
    with pytest.raises(error, match=told):
        fl.accelerator(pendulum, **options)


def test_simulations_take_what_functions_take(pendulum):
    needs("icarus")
    made = fl.accelerator(pendulum, "inverse_dynamics", interval=4)
    states = made.samples(6)
    run = made.simulate({name: x.reshape(2, 3, 2) for name, x in states.items()}, "icarus")
    assert np.array_equal(run.results["tau"].reshape(6, 2), made.function(**states))
    far = {**{name: x[0] for name, x in states.items()}, "q": [1e6, 0.0]}
    with pytest.raises(ValueError, match=r"^q\[0\] is 1000000: wanted -.*; saturate=True takes"):
        made.simulate(far, "icarus")
    run = made.simulate(far, "icarus", saturate=True)
    assert run.saturated == {"q": 1}
    assert np.array_equal(run.results["tau"], made.function.saturating()(**far))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"v": None}, "inputs has q, a: wanted q, v, a by name"),
        (
            {"q": np.full((6, 2), np.nan)},
            r"^q\[0, 0\] \(state 0\) is NaN: a circuit",
        ),
        ({"q": np.zeros((6, 3))}, r"q has shape \(6, 3\), wanted \(..., 2\)"),
        ({"q": np.zeros((0, 2)), "v": np.zeros(2), "a": np.zeros(2)}, "wanted a state, or more"),
    ],
    ids=["missing", "NaN", "shape", "empty"],
)
def test_bad_states_of_simulations(pendulum, change, told):
    made = fl.accelerator(pendulum, "inverse_dynamics", interval=4)
    states = {k: x for k, x in {**made.samples(6), **change}.items() if x is not None}
    with pytest.raises(ValueError, match=told):
        made.simulate(states)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"stalls": 256}, "stalls is 256: wanted a whole number from 0 to 255"),
        ({"simulator": ["icarus"]}, "wanted 'verilator' or 'icarus'"),
        ({"stalls": True}, "stalls is True: wanted a whole number"),
        ({"seed": float("nan")}, "seed is nan: wanted a whole number from 0 to 2147483647"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1 << 70}, "seed is 1180591620717411303424"),
    ],
)
def test_bad_options_of_simulations(pendulum, options, told):
    made = fl.accelerator(pendulum, "inverse_dynamics", interval=4)
    with pytest.raises(ValueError, match=told):
        made.simulate(made.samples(6), **options)


def test_choices_make_the_design_again(pendulum):
    made = fl.accelerator(pendulum, interval=4, format="fitted", clock=100, delays="low_latency")
    again = fl.accelerator(pendulum, **made.choices)
    assert again.choices == made.choices
    assert again.design.sources == made.design.sources


@pytest.mark.parametrize("how", ["write", "report", "trace"])
def test_what_is_no_path(pendulum, tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    write = getattr(fl.accelerator(pendulum, interval=4), how)
    with pytest.raises(ValueError, match="is '': wanted a path"):
        write("")
    with pytest.raises(TypeError, match="is 3: wanted a path"):
        write(3)
    assert not list(tmp_path.iterdir())


def test_reports_tell_lost_states_and_what_was_asked(pendulum):
    """Pivots of a pendulum this light are lost in 11 bits of fraction."""
    known = fl.accelerator(pendulum, "forward_dynamics", interval=4, format="q14.11").facts
    errors = known["errors"]["forward_dynamics"]
    assert errors["lost"] == known["states_of_errors"]
    figures = errors["results"]["a"]
    assert (figures["largest_error"], figures["median_error"]) == (None, None)
    json.dumps(known, allow_nan=False)
    asked = {"robot": "double_pendulum", "format": "q14.11", "algorithm": "deferred"}
    assert asked.items() <= known.items()
    assert known["ranges"]["q"] == [[-8.0] * 2, [8.0] * 2]


def test_sampled_states_fill_the_ranges(pendulum):
    q = fl.accelerator(pendulum, ranges={"q": (5, 6)}).samples(1000)["q"]
    assert (q >= 5).all()
    assert (q <= 6).all()
    assert np.ptp(q, axis=0).min() > 0.98


@pytest.mark.parametrize("states", [0, -1, 2.5, True])
def test_what_is_no_number_of_states(pendulum, states):
    with pytest.raises(ValueError, match=f"states is {states}: wanted a whole number, 1 or more"):
        fl.accelerator(pendulum, interval=4).samples(states)


def test_a_folder_has_one_design(pendulum, tmp_path):
    made = fl.accelerator(pendulum, "mass_matrix", interval=4, name="one")
    made.write(tmp_path)
    (tmp_path / "one_old.sv").write_text("an earlier module")
    made.write(tmp_path)
    assert not (tmp_path / "one_old.sv").exists()
    with pytest.raises(ValueError, match=r"holds one.*of another design"):
        fl.accelerator(pendulum, "mass_matrix", interval=4, name="two").write(tmp_path)
    with pytest.raises(ValueError, match="cannot be written to"):
        made.write(tmp_path / "one.sv")


def test_constants_are_no_pipeline():
    slide = textbook.tree(("prismatic",))
    with pytest.raises(fl.CompileError, match="is constant: there is nothing to compute"):
        fl.accelerator(slide, "mass_matrix")


def test_what_is_no_model():
    with pytest.raises(TypeError, match=r"model is .*: wanted a Model"):
        fl.accelerator(Graph())


def test_friction_has_no_circuit():
    rubbing = textbook.tree(("revolute", "revolute"), physics=True)
    with pytest.raises(fl.CompileError, match="there is no circuit for sqrt"):
        fl.accelerator(rubbing)


def test_ranges_and_clocks_on_the_command_line(tmp_path, capsys):
    command = ["generate", "double_pendulum", "--target", "verilog", "--output", str(tmp_path)]
    given = ["--function", "ID", "--range", "v=-3,3", "--range", "q=-1,1", "--clock", "55.6"]
    assert cli.main([*command, *given, "--delays", "low_latency", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["functions"]
    assert answer["report"]["ranges"]["v"] == [[-3, -3], [3, 3]]
    assert answer["report"]["clock_ns"] == pytest.approx(1e3 / 55.6)
    assert answer["report"]["delays"] == "low_latency"
    with pytest.raises(SystemExit):
        cli.main([*command, "--range", "v=3"])
    assert "is v=3; wanted NAME=LOW,HIGH" in capsys.readouterr().err
    assert cli.main([*command, "--dtype", "float32"]) == 2
    assert "--dtype is not for --target verilog" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--interval", "2"], ["--format", "q16.16"]])
def test_options_of_verilog_are_refused_for_c(tmp_path, options, capsys):
    command = ["generate", "double_pendulum", "--output", str(tmp_path)]
    assert cli.main([*command, *options]) == 2
    assert "is for --target verilog" in capsys.readouterr().err


def test_formats_of_steps_above_1_are_refused_and_not_proposed(pendulum):
    with pytest.raises(fl.CompileError, match=r"format 'q8\.0' of") as refusal:
        fl.accelerator(pendulum, format="q8.0")
    assert ".-" not in str(refusal.value)
    with pytest.raises(ValueError, match=r"format is 'q10.-2', whose step is 4: .* wanted bits"):
        fl.accelerator(pendulum, format="q10.-2")


@pytest.mark.parametrize("function", ["step:rk4", "step:semi_implicit", "rollout:2", "step_vjp"])
def test_functions_with_an_integrator_are_refused_by_name(pendulum, function):
    with pytest.raises(fl.CompileError, match=f"'{function}': steps in time have no circuit"):
        fl.accelerator(pendulum, function, ranges={"dt": (0.001, 0.01)})


def test_repr_of_an_accelerator_is_a_line(pendulum):
    made = fl.accelerator(pendulum, interval=2, format="fitted")
    about = "inverse_dynamics of double_pendulum: interval 2, format fitted"
    assert repr(made) == f"<PipelineAccelerator {about}>"


def test_unknown_names_are_answered(pendulum):
    with pytest.raises(AttributeError, match="no attribute 'fronts'; did you mean 'front'"):
        _ = fl.accelerator.fronts
    for call, name in (
        (fl.accelerator, "accelerator"),
        (fl.accelerator.design, "accelerator.design"),
        (fl.accelerator.front, "accelerator.front"),
        (fl.multifunction, "multifunction"),
    ):
        told = rf"^{name}\(\) got an unexpected keyword argument 'devices'; did you mean 'device'"
        with pytest.raises(TypeError, match=told):
            call(pendulum, devices="xcvu9p")


def test_each_shared_unit_has_registers_of_the_phase():
    """One register for all units of a module would drive wires across the chip."""
    made = fl.accelerator(fl.load("double_pendulum"), "inverse_dynamics", interval=4)
    choices = {
        (name, choice.phase, signal)
        for name, units in made.design.units.items()
        for signal, choice in units.choices.items()
    }
    assert choices
    for name, phase, signal in choices:
        assert signal.startswith(phase.removesuffix("phase"))
        assert f"{phase} <= phase_next;" in made.design.sources[f"{name}.sv"]
