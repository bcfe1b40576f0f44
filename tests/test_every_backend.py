"""One suite for all backends: functions of robots have the bits of the reference interpreter, which
runs the lowered program operation by operation.
"""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import gpu_emulator
import ground_cases
import numpy as np
import pytest
import textbook
from constrained_states import in_contact
from ground_robots import biped
from repetition import repeated
from test_backend import DTYPES, same_bits

from featherlane.backends import reference
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.table import DEFAULT_INTEGRATOR, FUNCTIONS, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.functions.variants import input_shapes, variant_of_graph
from featherlane.program.lower import lower

BATCH = 37  # a warp of a GPU and five states, and parts of all vectors


def on_cpu(width):
    """In vectors of so many lanes; None: the widest of the processor."""
    return lambda make, inputs: make(width=width)(*inputs.values())


def one_by_one(make, inputs):
    """Each state by the kernel for one state."""
    function = make()
    rows = [function(*(x[k] for x in inputs.values())) for k in range(BATCH)]
    if not isinstance(rows[0], tuple):
        return np.stack(rows)
    return tuple(map(np.stack, zip(*rows, strict=True)))


def in_threads(make, inputs):
    return make()(*inputs.values(), threads=3)


def on_gpu(mapping):
    """The kernels of a mapping, by the emulator."""

    def run(make, inputs):
        dtype = next(iter(inputs.values())).dtype
        kernels = make().gpu.kernels(mapping, "f", dtype)
        return tuple(gpu_emulator.run(kernels, inputs, dtype).values())

    return run


# By name: from a function that makes the function to call, and from inputs, to results
BACKENDS = {
    "cpu": on_cpu(None),
    "cpu, 1 lane": on_cpu(1),
    "cpu, 4 lanes": on_cpu(4),
    "cpu, one state": one_by_one,
    "cpu, 3 threads": in_threads,
    **{f"cuda, {x}": on_gpu(x) for x in ("lanes", "team:2", "team:4", "team:8")},
}
ROBOTS = {
    "curved": ("free", "universal", "spherical"),
    "revolute": ("revolute", "prismatic", "helical"),
    "branched": ("planar", "revolute", "revolute", "cylindrical"),
}
F32, F64 = DTYPES if DTYPES[0] is np.float32 else DTYPES[::-1]
CASES = [  # the first robot on every backend in both dtypes, the others by turns
    *[("revolute", backend, dtype) for backend in BACKENDS for dtype in DTYPES],
    *[("curved", x, F64) for x in ("cpu", "cpu, 1 lane", "cuda, lanes", "cuda, team:4")],
    *[("curved", x, F32) for x in ("cpu, 4 lanes", "cpu, one state", "cuda, team:8")],
    *[("branched", x, F32) for x in ("cpu", "cpu, one state", "cuda, lanes", "cuda, team:4")],
    *[("branched", x, F64) for x in ("cpu, 3 threads", "cuda, team:2")],
]


@cache
def model_of(robot):
    return textbook.tree(ROBOTS[robot], seed=4, physics=True)


def by_interpreter(model, variant, dtype):
    """Random inputs of a function, and what the interpreter gives."""
    program = lower(dynamics_program(model, variant), "cpu", dtype)
    rng = np.random.default_rng(2)
    inputs = {x: rng.normal(size=(BATCH, *shape)) for x, shape in program.inputs.items()}
    inputs["q"] = model.random_configuration(BATCH, seed=rng)
    if "active" in inputs:
        inputs["active"] = rng.integers(0, 2, size=inputs["active"].shape)
    inputs = {x: y.astype(dtype) for x, y in inputs.items()}
    return inputs, [*reference.evaluate(program, inputs, dtype).values()]


@cache
def interpreted(robot, name, dtype):
    return by_interpreter(model_of(robot), Variant(name), dtype)


def check_bits(found, wanted):
    found = found if isinstance(found, tuple) else (found,)
    for x, y in zip(found, wanted, strict=True):
        same_bits(x, np.broadcast_to(y, x.shape))


@pytest.mark.parametrize("name", repeated([*FUNCTIONS][1:] + [*FUNCTIONS][:1], 2))
@pytest.mark.parametrize(("robot", "backend", "dtype"), repeated(CASES, 2 * len(BACKENDS)))
def test_bits_of_the_interpreter(robot, backend, name, dtype):
    inputs, wanted = interpreted(robot, name, dtype)
    make = partial(model_of(robot).function, name)
    check_bits(BACKENDS[backend](make, inputs), wanted)


@cache
def interpreted_in_contact(name, dtype):
    model, c = in_contact()
    return by_interpreter(model, Variant(name, constraints=ConstraintInputs(c, True)), dtype)


HELD = ("constrained_forward_dynamics", "constrained_forward_dynamics_derivatives")
HELD_CASES = [
    *[(HELD[0], x, F64) for x in BACKENDS],
    *[(HELD[1], "cpu", F64), (HELD[1], "cuda, lanes", F64), (HELD[0], "cpu", F32)],
]
HELD_CASES += [x for x in product(HELD, BACKENDS, DTYPES) if x not in HELD_CASES]


@pytest.mark.parametrize(("name", "backend", "dtype"), repeated(HELD_CASES, len(BACKENDS) + 3))
def test_bits_with_constraints(name, backend, dtype):
    """Masks of all kinds in one batch."""
    model, c = in_contact()
    inputs, wanted = interpreted_in_contact(name, dtype)
    make = partial(model.function, name, constraints=c, active=True)
    check_bits(BACKENDS[backend](make, inputs), wanted)


@cache
def stopped():
    """A robot with friction, springs and soft stops, states, and a step by the interpreter."""
    model = textbook.tree(("revolute", "prismatic"), seed=4, physics=True)
    joints = (replace(joint, lower=(-0.3,), upper=(0.2,)) for joint in model.joints)
    model = replace(model, joints=tuple(joints)).with_physics(stiffness=4.0, spring_reference=0.1)
    model = model.with_soft_limits(50.0, 1.0, width=0.3)
    variant = Variant("step", integrator=DEFAULT_INTEGRATOR)
    program = lower(dynamics_program(model, variant), "cpu", F64)
    rng = np.random.default_rng(2)
    inputs = {x: rng.normal(size=(BATCH, *shape)) for x, shape in program.inputs.items()}
    inputs["dt"] = rng.uniform(0.001, 0.02, BATCH)
    return model, inputs, [*reference.evaluate(program, inputs, np.float64).values()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_bits_of_a_step_with_friction_springs_and_stops(backend):
    model, inputs, wanted = stopped()
    found = BACKENDS[backend](partial(model.function, "step"), inputs)
    for x, y in zip(found, wanted, strict=True):
        same_bits(x, y)


@cache
def interpreted_on_the_ground(name, steps, dtype):
    """Inputs of a rollout, or of a step, with feet on the ground, and the results of as many steps
    by the interpreter.
    """
    options = ground_cases.options(name)
    step = variant_of_graph(biped(), "step", **options)
    if not steps:
        program = lower(dynamics_program(biped(), step), "cpu", dtype)
        inputs = ground_cases.arrays(program.inputs, BATCH, dtype)
        return inputs, [*reference.evaluate(program, inputs, dtype).values()]
    rollout = variant_of_graph(biped(), "rollout", steps=steps, **options)
    inputs = ground_cases.arrays(input_shapes(biped(), rollout), BATCH, dtype)
    warm = dynamics_program(biped(), step._replace(ground=step.ground.warm()))
    program, each = lower(warm, "cpu", dtype), []
    now = {x: np.zeros((BATCH, *shape), dtype) for x, shape in warm.inputs.items()} | inputs
    for k in range(steps):
        now |= {x: inputs[x][:, k] for x in ("tau", "active") if x in inputs}
        each.append(reference.evaluate(program, now, dtype))
        now |= {x: each[-1][f"{x}_next"] for x in ("q", "v", "impulse")}
    states = [np.stack([inputs[x], *(y[f"{x}_next"] for y in each)], 1) for x in ("q", "v")]
    forces = [np.stack([y[x] for y in each], 1) for x in ("contact_force", "residual")]
    names = step.sensors.shapes if step.sensors else ()
    readings = [np.stack([y[f"{x}_next"] for y in each], 1) for x in names]
    return inputs, [*states, *forces, each[-1]["impulse_next"], *readings]


QUICK_ON_THE_GROUND = [
    *[("rigid", 0, x, F64) for x in ("cpu", "cpu, one state", "cuda, lanes", "cuda, team:4")],
    *[("rigid", 3, x, F32) for x in ("cpu, 3 threads", "cuda, lanes")],
    *[("held", 3, "cuda, lanes", F32), ("soft", 0, "cuda, lanes", F64)],
]
GROUND_CASES = QUICK_ON_THE_GROUND + [  # rollouts have no teams
    x
    for x in product(ground_cases.cases(), (0, 3), BACKENDS, DTYPES)
    if x not in QUICK_ON_THE_GROUND and not (x[1] and "team" in x[2])
]


@pytest.mark.parametrize(
    ("name", "steps", "backend", "dtype"), repeated(GROUND_CASES, len(QUICK_ON_THE_GROUND))
)
def test_bits_on_the_ground(name, steps, backend, dtype):
    inputs, wanted = interpreted_on_the_ground(name, steps, dtype)
    more = {"steps": steps} if steps else {}
    function = "rollout" if steps else "step"
    make = partial(biped().function, function, **ground_cases.options(name), **more)
    check_bits(BACKENDS[backend](make, inputs), wanted)
