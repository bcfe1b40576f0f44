"""The parts of the predictive controller in benchmarks/mpc: derivatives, two solvers, the plant."""

import sys

import numpy as np
import pytest
from documents import ROOT

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends.fixed.evaluate import Evaluator, floats, quantised
from featherlane.functions.table import Variant

for needed in ("piqp", "mujoco", "scipy"):
    pytest.importorskip(needed)

KNOTS, DT = 6, 0.015


@pytest.fixture(scope="module")
def mpc():
    """The modules of the experiment, by name."""
    places = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "mpc")]
    sys.path[:0] = places
    names = ["robot", "dynamics_featherlane", "formulation", "programs", "solver", "plant", "run"]
    names += ["chain_rule", "circuit_time", "dynamics_accelerator", "words"]
    names += ["chain_circuit", "chain_columns", "circuit", "network_time", "stage_circuit"]
    before = set(sys.modules)
    yield {name: __import__(name) for name in names}
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(places[0]):
            del sys.modules[name]
    for place in places:
        sys.path.remove(place)


@pytest.fixture(scope="module")
def robot(mpc):
    return mpc["robot"].quadruped()


@pytest.fixture(scope="module")
def dynamics(mpc, robot):
    return mpc["dynamics_featherlane"].Featherlane(robot, KNOTS, 1)


def test_slopes_are_those_of_steps(mpc, robot, dynamics):
    """Against differences of steps along random directions."""
    q, v, u, f = mpc["run"].random_knots(robot, KNOTS)
    rng, model, h = np.random.default_rng(1), robot.model, 1e-6
    q_next, _, A, B = (x.copy() for x in dynamics.linearise(q, v, u, f, DT))
    dx, du = rng.normal(size=(KNOTS, 50)), rng.normal(size=(KNOTS, 31))
    ends = []
    for s in (h, -h):
        moved = model.integrate(q, s * dx[:, :25]), v + s * dx[:, 25:]
        controls = u + s * du[:, :19], f + s * du[:, 19:].reshape(KNOTS, 4, 3)
        at, speed = dynamics.step(*moved, *controls, DT)
        ends.append(np.concatenate([model.difference(q_next, at), speed], 1))
    wanted = (ends[0] - ends[1]) / (2 * h)
    found = np.einsum("kij,kj->ki", A, dx) + np.einsum("kij,kj->ki", B, du)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


def test_two_solvers_give_one_step(mpc, robot, dynamics):
    """PIQP and a Riccati pass, from a disturbed state during the trot."""
    formulation = mpc["formulation"].Formulation(robot, knots=KNOTS, barrier=True)
    plans = []
    rng = np.random.default_rng(2)
    v = 0.05 * rng.normal(size=robot.model.nv)
    programs = mpc["programs"]
    for program in (programs.Piqp(formulation, 1e-9), programs.Riccati(formulation)):
        solver = mpc["solver"].Solver(formulation, dynamics, program)
        plan = solver.first_plan(0.8, robot.stance, v)
        plans.append(solver.iterate(plan, 0.8, robot.stance, v))
    for name in ("q", "v", "u", "f"):
        found, wanted = (getattr(plan, name) for plan in plans)
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max(), err_msg=name)


def test_robots_together_do_what_each_does_alone(mpc, robot, dynamics):
    formulation = mpc["formulation"].Formulation(robot, knots=KNOTS, barrier=True)
    program, solver = mpc["programs"].Riccati, mpc["solver"]
    solvers = [solver.Solver(formulation, dynamics, program(formulation)) for _ in range(2)]
    states = [(robot.stance, np.full(robot.model.nv, speed)) for speed in (0.02, -0.05)]
    firsts = zip(solvers, states, strict=True)
    plans = [each.first_plan(0.8, *state) for each, state in firsts]
    many = mpc["dynamics_featherlane"].Featherlane(robot, 2 * KNOTS, 1)
    together = solver.iterate_together(solvers, many, plans, 0.8, states)
    for each, plan, state, found in zip(solvers, plans, states, together, strict=True):
        alone = each.iterate(plan, 0.8, *state)
        for name in ("q", "v", "u", "f"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))


def test_the_plant_is_the_robot(mpc, robot):
    assert mpc["plant"].Plant(robot, seed=1).mass_matrix_error() < 1e-12


# An accelerator for the dynamics


def test_the_chain_rule_is_the_rest_of_a_linear_step(mpc, robot, dynamics):
    """Dynamics from elsewhere, all else from the plan of `linearize_step`: the same bits."""
    rule = mpc["chain_rule"]
    q, v, u, f = mpc["run"].random_knots(robot, KNOTS)
    model, f_ext = robot.model, np.zeros((KNOTS, 4, 6))
    f_ext[..., :3], tau = f, np.pad(u, ((0, 0), (6, 0)))
    options = {"actuation": dynamics.options["actuation"], "by_wrenches": True}
    wrenches = {"wrenches": "world", "at": mpc["robot"].FEET}
    linear = Variant("linearize_step", integrator="rk4", **options, **wrenches)
    exact = rule.piece(model, Variant(rule.DYNAMICS, **wrenches))
    to_stage = [rule.piece(model, Variant(f"to_{x}_stage")) for x in ("half", "half", "full")]
    at, stages = (q, v, v), []
    for k in range(4):
        stages += exact(*at[:2], tau, f_ext)
        if k < 3:
            at = to_stage[k](q, v, at[2], stages[4 * k], np.array(DT))
    found = rule.chain_rule(model, linear)(q, v, u, np.array(DT), f_ext, *stages)
    wanted = model._function(linear)(q, v, u, np.array(DT), f_ext)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", range(4))
def test_cycles_of_serial_stages(mpc, seed):
    """Against a simulation that goes from clock cycle to clock cycle, on a link without delay."""
    rng, time = np.random.default_rng(seed), mpc["circuit_time"]
    interval, latency, turn, tasks = (int(rng.integers(1, n)) for n in (9, 40, 20, 12))
    times = time.Times(interval, latency, 8.0)
    found = [*time.scheduled(times, tasks, (0, 0), 4, turn)]
    ready = dict.fromkeys(((task, 0) for task in range(tasks)), 0)
    wanted, free = {}, 0
    for cycle in range(tasks * 4 * (interval + latency + turn)):
        waiting = sorted((at, *key) for key, at in ready.items() if at <= cycle)
        if waiting and cycle >= free:
            _, task, stage = waiting[0]
            del ready[task, stage]
            wanted[task, stage], free = cycle, cycle + interval
            if stage < 3:
                ready[task, stage + 1] = cycle + latency + turn
    assert {(x.task, x.stage): x.entered for x in found} == wanted
    assert [x.done for x in found] == sorted(8.0 * (c + latency) for c in wanted.values())


def test_the_link_bounds_what_a_pipeline_gives(mpc):
    """320 bytes of results take 10 ns, longer than the pipeline's interval of 8."""
    time = mpc["circuit_time"]
    taken = time.seconds(time.Times(1, 50, 8.0), 1000, (0, 80))
    assert taken == pytest.approx(1e-9 * (50 * 8 + 1000 * 10))


def test_the_array_of_the_chain_rule_gives_the_slopes_of_a_step(mpc, robot, dynamics):
    """Column by column through four stages, in float64 and in the array's numbers."""
    chain, count = mpc["chain_columns"], 4
    states = mpc["circuit"].sampled(robot, count, 5)
    numbers = np.divmod(np.arange(count * 81), 81)

    def columns(tau, of):
        stages = chain.stages_of(robot, {**states, "tau": tau}, DT)
        return chain.walked(stages, DT, *numbers, of)[1].reshape(count, 81, 50).swapaxes(1, 2)

    q, v, tau, f_ext = states.values()
    f_ext = dict(zip(mpc["robot"].FEET, f_ext.swapaxes(0, 1), strict=True))
    options = {**dynamics.options, "by_wrenches": True, "integrator": "rk4"}
    *_, A, B = robot.model.linearize_step(q, v, tau[:, 6:], DT, f_ext, **options)
    forces = B[..., 19:].reshape(count, 50, 4, 6)[..., :3].reshape(count, 50, 12)
    wanted = np.concatenate([A, B[..., :19], forces], 2)
    found = columns(np.pad(tau[:, 6:], ((0, 0), (6, 0))), chain.exactly)
    np.testing.assert_allclose(found, wanted, atol=1e-12 * np.abs(wanted).max())
    found, wanted = (
        columns(tau, of)
        for of in (chain.in_numbers_of(chain.fitted_array(robot)), chain.exactly)
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted, atol=5e-5 * np.abs(wanted).max())


def test_the_circuit_of_the_next_stage_is_the_integrator(mpc, robot):
    """Its series and its step of Newton's method, on states with speeds of closed loops."""
    stage, piece = mpc["stage_circuit"], mpc["chain_rule"].piece
    model, given = robot.model, stage.sampled_stages(robot, 3000, 1)
    made = stage.piece_datapath(stage.circuit_of(stage.next_state(model)), given)
    found = floats(made, Evaluator(made)(quantised(made, given)[0]).integers)
    h = given["h"][:, None]
    u, v_next = given["end_r"] + h * given["rate"], given["v"] + given["end_a"] + h * given["a"]
    wanted = {"q_next": model.integrate(given["q"], u), "v_next": v_next}
    method = INTEGRATORS["rk4"].combination(())
    maps = piece(model, Variant("stage_maps", tableau=method))(u, v_next)
    wanted |= dict(zip(("by_q", "by_u", "rate_by_u", "rate_by_v"), maps, strict=True))
    for name, x in wanted.items():
        most = 2e-6 * max(1.0, np.abs(x).max())
        np.testing.assert_allclose(found[name], x, atol=most, err_msg=name)


def test_the_circuit_of_the_feet_is_their_jacobian(mpc, robot):
    stage, model = mpc["stage_circuit"], robot.model
    given = {"q": stage.sampled_stages(robot, 3000, 2)["q"]}
    graph = stage.circuit_of(stage.feet_jacobians(model), ("v", "a", "f_ext"))
    made = stage.piece_datapath(graph, given)
    found = floats(made, Evaluator(made)(quantised(made, given)[0]).integers)["forces"]
    feet = [model.jacobian(given["q"], foot, "world")[:, :3] for foot in mpc["robot"].FEET]
    wanted = -np.concatenate(feet, 1).swapaxes(1, 2)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_array_takes_stages_of_knots_as_they_are_ready(mpc):
    """Against a simulation from cycle to cycle: one at a time, each behind the stage before it."""
    rng = np.random.default_rng(6)
    ready = np.cumsum(rng.integers(0, 90, (4, 9)), 0)
    chain = mpc["chain_circuit"].ChainTimes(2, 7, 5)
    done = {(-1, k): 0 for k in range(9)}
    free = 0
    for stage in range(4):
        waiting = {k: max(int(ready[stage, k]), done[stage - 1, k]) for k in range(9)}
        for cycle in range(10_000):
            own = [k for k in sorted(waiting, key=lambda k: (waiting[k], k)) if waiting[k] <= cycle]
            if own and cycle >= free:
                del waiting[own[0]]
                free = cycle + 10
                done[stage, own[0]] = free + 7
    wanted = [done[3, k] for k in range(9)]
    assert mpc["network_time"].chained(ready, chain).tolist() == wanted


def test_stages_on_a_network_follow_one_another(mpc):
    """A stage begins behind the accelerations of the one before: few knots do not cover that."""
    time = mpc["network_time"]
    arm = fl.load("double_pendulum")
    design = fl.multifunction(arm, [time.FORWARD, time.DERIVATIVES], interval=8)
    times = time.NetworkTimes(design)
    found = times.emitted(24, 6, 4, 20)
    assert found.derivatives.shape == (4, 24)
    assert (np.diff(found.accelerations, axis=0) > design.latency[time.FORWARD]).all()
    passes = 4 * 24 * 3 * design.interval
    assert passes <= found.derivatives.max() < 1.2 * passes
    with pytest.raises(ValueError, match="1 knots do not cover the 1000 cycles"):
        times.emitted(1, 6, 4, 1000)
    bare = times.seconds(24, (6, 0), 4, 20)
    assert bare == pytest.approx(8e-9 * found.derivatives.max())
    assert times.seconds(24, (6, 0), 4, 20, derivatives=False) < bare / 2


def test_modelled_work_takes_the_time_that_is_told(mpc):
    clock = mpc["dynamics_accelerator"].Clock()
    begin = clock()
    with clock.takes(100.0):
        with clock.takes(7.0):
            sum(range(100_000))
        sum(range(100_000))
    assert 100.0 <= clock() - begin < 100.01


def test_words_of_a_circuit(mpc):
    """What the host writes and reads is what the golden model takes and gives."""
    arm = fl.load("double_pendulum")
    function = arm.function("forward_dynamics_derivatives", backend="fixed", format="fitted")
    datapath, rng = function.datapath, np.random.default_rng(0)
    states = {name: rng.normal(size=(5, 2)) for name in ("q", "v", "tau")}
    words = mpc["words"]
    encode = words.Encoder(datapath, [*states])
    decode = words.Decoder.of(datapath, [*function.outputs])
    sent = np.empty((5, encode.count), np.int32)
    encode(np.concatenate([*states.values()], 1), sent)
    integers, _ = quantised(datapath, states)
    read = [datapath.graph.value[k] for k in datapath.graph.nodes_of("input")]
    assert sent.tolist() == [[int(integers[name][s, i]) for name, i in read] for s in range(5)]
    wanted = np.concatenate([x.reshape(5, -1) for x in function(**states)], 1)
    found = decode.empty(5, np.dtype(float))
    decode(decode.words_of(wanted), found)
    np.testing.assert_array_equal(found, wanted)
