"""Numbers: functions against 400 digits, and float32 against its model of conditioning.

FEATHERLANE_SEEDS=1000 tries so many robots instead of the six of a usual run.
"""

import os
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from documents import ROOT
from exact import condition_of, exact
from near_singular import FAMILIES, robot, state
from repetition import repeated
from robot_files import robot_file

import featherlane as fl
from featherlane.backends import reference
from featherlane.functions.table import CALLED, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes
from featherlane.program.lower import lower
from featherlane.robot.conditioning import ERROR, NEARLY, conditioning
from featherlane.tools.check import NOISE, comparable

sys.path.insert(0, str(ROOT / "benchmarks"))
from float32_errors import float32_errors

SEEDS = int(os.environ.get("FEATHERLANE_SEEDS", "6"))
FUNCTIONS = (
    "inverse_dynamics",
    "forward_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "inverse_dynamics_derivatives",
    "forward_dynamics_derivatives",
)
DTYPES = (np.float64, np.float32)


def interpreted(model, function, inputs, dtype):
    variant = Variant(function, None)
    program = lower(dynamics_program(model, variant), "cpu", np.dtype(dtype))
    given = {name: inputs[name] for name in input_shapes(model, variant)}
    return reference.evaluate(program, given, dtype)


def compiled(model, function, inputs, dtype):
    kernel = model.function(function)
    found = kernel(*(inputs[name] for name in kernel.inputs))
    return dict(zip(kernel.outputs, found if isinstance(found, tuple) else (found,), strict=True))


def largest(x):
    return max(abs(entry) for entry in x.ravel())


def error(found, true, force):
    """The largest error of the finite blocks of a function, relative to the block's largest entry,
    but to no less than the force of a unit acceleration or, where a function gives accelerations
    (force None), than NOISE times its largest entry.
    """
    floor = force or NOISE * max(mpmath.mpf(1), *map(largest, true.values()))
    errors = [0.0]
    for block, x in true.items():
        if np.isfinite(found[block]).all():
            difference = np.vectorize(mpmath.mpf)(found[block].astype(float)) - x
            errors.append(float(largest(difference) / max(largest(x), floor)))
    return max(errors)


def unannounced(model, inputs, dtype, evaluate):
    """The functions with a finite result beyond its bound of which the card says nothing."""
    warned = any("singular" in note for note in model.notes)
    M = exact(model, "mass_matrix", inputs)["M"]
    kappa, force = condition_of(M), largest(M)
    for function in FUNCTIONS:
        divides = CALLED[function].divides
        bound = ERROR * float(np.finfo(dtype).eps) * (kappa if divides else 1.0)
        try:
            found = evaluate(model, function, inputs, dtype)
        except fl.CompileError:  # singular for every q
            if not warned:
                yield function, "refused"
            continue
        true = exact(model, function, inputs)
        singular = any(mpmath.isnan(x) for block in true.values() for x in block.ravel())
        if singular:
            wrong = any(np.isfinite(x).all() for x in found.values())
        else:
            wrong = error(found, true, None if divides else force) > min(bound, 0.1)
        if wrong and not (warned and divides):
            yield function, bound


@pytest.mark.parametrize("dtype", repeated(DTYPES[::-1]))
def test_results_beyond_their_bound_are_announced_by_the_card(dtype):
    for seed in range(SEEDS):
        model = robot(seed)
        inputs = state(model, seed, dtype)
        assert not [*unannounced(model, inputs, dtype, interpreted)], seed


@pytest.mark.parametrize(("seed", "dtype"), [(3, np.float64), (4, np.float32), (11, np.float32)])
def test_compiled_code_too(seed, dtype):
    model = robot(seed)
    assert not [*unannounced(model, state(model, seed, dtype), dtype, compiled)]


def scattered(model):
    """The same robot with masses over four orders of magnitude."""
    factors = 10.0 ** np.random.default_rng(0).uniform(-2, 2, model.nbodies)
    bodies = [
        replace(b, mass=b.mass * x, inertia=tuple(map(tuple, np.array(b.inertia) * x)))
        for b, x in zip(model.bodies, factors.tolist(), strict=True)
    ]
    return replace(model, bodies=tuple(bodies))


UNSEEN = [  # robots to which benchmarks/conditioning.py did not fit the model
    scattered(fl.chain(5, seed=103)),
    fl.chain(6, seed=102),
    fl.random_tree(4, 1.5, physics=True, seed=100),
]


@pytest.mark.parametrize("model", repeated(UNSEEN), ids=["scattered", "chain", "tree"])
def test_float32_errors_are_as_the_conditioning_says(model):
    functions = FUNCTIONS if model.nv < 6 else ("forward_dynamics", "mass_matrix_inverse")
    found = float32_errors(comparable(model)[0], functions, states=10, seed=7)
    assert 0.1 < max(found.values()) < ERROR


@pytest.mark.parametrize(
    "file", ["ur_description/urdf/ur5_robot.urdf", "finger_edu_description/robots/finger_edu.urdf"]
)
@pytest.mark.parametrize("root", repeated(["free", "fixed"]))
def test_float32_errors_of_other_robots(file, root):
    model = fl.load(robot_file(file.split("/")[-1], file), root=root)
    found = float32_errors(comparable(model)[0], ("forward_dynamics", "mass_matrix_inverse"))
    assert max(found.values()) < ERROR


def neutral(model):
    return np.concatenate([model.types[i].neutral for i in model.independent])


@pytest.mark.parametrize("mimic", [0.0, 0.4])
def test_the_conditioning_is_that_of_the_mass_matrix(mimic):
    for seed in range(4):
        model = fl.random_tree(6, physics=seed % 2, mimic=mimic, seed=seed)
        with np.errstate(all="ignore"):
            M = np.array(exact(model, "mass_matrix", {"q": neutral(model)})["M"], float)
        ratios = np.diag(M) * np.diag(np.linalg.inv(M))
        for i, found in enumerate(conditioning(model)):
            if model.joints[i].mimic is None:
                assert found == pytest.approx(ratios[list(model.dofs[i])].max(), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "told"), [(1e-2, ""), (1e-5, "nearly singular"), (0, "is singular")]
)
def test_the_card_says_how_near_to_singular_a_robot_is(size, told):
    """Two slides of one body whose axes differ by a small angle: the conditioning is its square."""
    parallel_slides = FAMILIES[3]
    model = parallel_slides(np.random.default_rng(0), size)
    text = " ".join(note for note in model.notes if "singular" in note)
    assert told in text
    assert bool(told) == bool(text)
    if size:
        assert (max(conditioning(model)) > NEARLY) == bool(told)
    if "nearly" in told:
        assert "conditioning 1e+10" in text
        assert "4 in float64 and 0 in float32; little inertia resists joint2, joint3" in text
