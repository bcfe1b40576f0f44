"""Products of Jacobians of steps and rollouts on the ground, with sensors and laws that read them,
by all of their inputs, as frameworks ask for them.
"""

from functools import cache

import numpy as np
import pytest
from ground_robots import DT, biped, standing
from numpy.testing import assert_allclose
from repetition import repeated

import featherlane as fl
from featherlane.functions.differentiated import function_of
from featherlane.functions.operations import Operation
from featherlane.functions.variants import variant_of_graph

STATES, STEPS, H = 6, 6, 1e-7
GROUND = fl.Ground(friction=0.8)
RIGID, SOFT = fl.Coulomb(sweeps=60, friction_loss=True), fl.SoftContacts(steps=8)
NO_DERIVATIVE = ("residual", "impulse")


@cache
def sensors(ground):
    """An IMU, a reward, and a force or velocity that laws read."""
    model = biped()

    def readings(step, aim):
        miss = step.q_next[2] - aim
        felt = step.force_on("FL_foot") / 100 if ground else step.v_next[:3]
        return {"imu": model.imu(step.q, step.v, step.a, "trunk"), "cost": miss**2, "felt": felt}

    return model.sensors(readings, ground, {"aim": ()})


@cache
def law(hold):
    """A law with memory that reads a sensor of the step before."""

    def function(q, v, t, gain, goal, total, felt):
        joints = gain * (goal - v[6:]) + 5 * felt[2] + total
        return np.append(np.zeros(6), joints), {"total": 0.5 * total + v[6:]}

    arrays = {"references": {"goal": 4}, "memory": {"total": 4}, "sensors": {"felt": 3}}
    return biped().policy(function, {"gain": ()}, **arrays, hold=hold)


def inputs_of(op, rng):
    """Inputs by name, of robots on their feet."""
    q, v = standing(STATES, seed=4, model=biped())
    q[:, 2] -= 0.003
    if "restitution" in op.inputs:
        v[:, 2] -= 5.0
    known = {
        "q": q,
        "v": 0.3 * v,
        "dt": np.full(STATES, DT),
        "friction": np.full(STATES, 0.3),
        "restitution": np.full(STATES, 0.7),
        "height": np.zeros(STATES),
        "mass": np.tile(biped().parameters("mass")["mass"], (STATES, 1)),
        "aim": np.full(STATES, 0.3),
    }
    return {x: known.get(x, rng.normal(size=(STATES, *s))) for x, s in op.inputs.items()}


def summed(results, weights):
    return sum((w * x).reshape(STATES, -1).sum(1) for w, x in zip(weights, results, strict=True))


CASES = {
    "rebound": ("step", GROUND, fl.Coulomb(sweeps=60), {"ground_params": ["restitution"]}),
    "soft step": ("step", GROUND, SOFT, {}),
    "law": ("rollout_with", GROUND, RIGID, {"steps": STEPS, "every": 2, "policy": 2}),
    "law without ground": ("rollout_with", None, None, {"steps": STEPS, "every": 3, "policy": 2}),
    "step": ("step", GROUND, RIGID, {}),
    "rollout": ("rollout", GROUND, RIGID, {"steps": STEPS}),
    "soft law": ("rollout_with", GROUND, SOFT, {"steps": STEPS, "policy": 1}),
}


@pytest.mark.parametrize("case", repeated([*CASES], 4))
def test_products_are_those_of_differences(case):
    """By each input and of all outputs; forwards and backwards they are one number."""
    name, ground, contacts, more = CASES[case]
    options = {"ground": ground, "law": contacts, "sensors": sensors(ground), "params": ["mass"]}
    if ground:
        more = {"ground_params": [], **more}
        more["ground_params"] = ["friction", *more["ground_params"], "height", "impulse"]
    if "policy" in more:
        more = {**more, "policy": law(more["policy"])}
    op = Operation(biped(), variant_of_graph(biped(), name, **options, **more))
    rng, moving = np.random.default_rng(0), [x for x in op.inputs if x not in NO_DERIVATIVE]
    inputs = inputs_of(op, rng)
    if ground:
        inputs["impulse"] *= 0.0
    run, results = function_of(op), function_of(op)(*inputs.values())
    if ground:
        touching = dict(zip(op.outputs, results, strict=True))["contact_force"][..., 2] > 0
        assert 0.2 < touching.mean() < 0.9
    weights = [
        rng.normal(size=x.shape) * (of != "residual")
        for of, x in zip(op.outputs, results, strict=True)
    ]
    directions = {x: rng.normal(size=inputs[x].shape) for x in moving}
    back = function_of(op.adjoints(moving))(*inputs.values(), *weights)
    total = np.zeros(STATES)
    for (x, d), gradient in zip(directions.items(), back, strict=True):
        h = H * DT if x == "dt" else H
        ends = [run(*{**inputs, x: inputs[x] + s * d}.values()) for s in (h, -h)]
        difference = summed([a - b for a, b in zip(*ends, strict=True)], weights) / (2 * h)
        exact = (gradient * d).reshape(STATES, -1).sum(1)
        error, scale = np.abs(exact - difference), np.abs(difference).max()
        assert np.median(error) < 1e-5 * scale
        assert np.sum(error < 1e-4 * scale) > STATES - 2
        total += exact
    along = function_of(op.tangents(moving))(*inputs.values(), *directions.values())
    assert_allclose(summed(along, weights), total, rtol=1e-9, atol=1e-9 * np.abs(total).max())
