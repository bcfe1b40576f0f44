"""Steps of a robot on two feet for tests of every target: options of the functions, and inputs with
feet that touch the ground in half of the states.
"""

from functools import cache

import numpy as np
from ground_robots import DT, biped, standing

import featherlane as fl

DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]
RIGID = fl.Coulomb(sweeps=3, limits=True, friction_loss=True)
PER_STATE = ("friction", "restitution", "height", "impulse")


@cache
def cases():
    """Options of `model.function` and `model.graph` by name: rows of all kinds with parameters of
    each state, constraints beside contacts, and soft contacts with sensors.
    """
    knees = [fl.Coupling(f"{x}_knee", f"{x}_hip", (0.0, -2.0)) for x in ("FL", "RR")]
    held = {"constraints": biped().constraints(knees), "active": True}
    return {
        "rigid": {"law": RIGID, "ground_params": PER_STATE, "params": ("mass",)},
        "held": {"law": fl.Coulomb(sweeps=3), **held},
        "soft": {
            "law": fl.SoftContacts(cone="elliptic", steps=2),
            "ground_params": ("friction",),
            "sensors": sensors(),
        },
    }


@cache
def sensors():
    """Readings of an IMU, of a foot, and a reward."""
    model = biped()

    def readings(step, aim):
        miss = step.q_next[2] - aim
        return {
            "imu": model.imu(step.q, step.v, step.a, "trunk"),
            "foot": step.force_on("FL_foot"),
            "cost": miss * miss + 1e-4 * step.tau @ step.tau,
        }

    return model.sensors(readings, fl.Ground(), {"aim": ()})


def options(name):
    return {"ground": fl.Ground(), **cases()[name]}


def keywords(name, inputs, array=np.asarray):
    """Keyword arguments of methods of the model. inputs: arrays, which `array` converts."""
    case = cases()[name]
    converted = lambda names: {x: array(inputs[x]) for x in case.get(names, ())} or None
    result = {x: converted(x) for x in ("params", "ground_params")}
    if "constraints" in case:
        result |= {"constraints": case["constraints"], "active": array(inputs["active"])}
    if "sensors" in case:
        result |= {"sensors": case["sensors"], "parameters": {"aim": array(inputs["aim"])}}
    return {"ground": fl.Ground(), "law": case["law"], **result}


@cache
def policy():
    """A law that pulls towards a stance."""

    def law(q, v, t, gain):
        return np.concatenate([np.zeros(6), gain * (0.3 - q[7:]) - v[6:]])

    return biped().policy(law, {"gain": ()})


def arrays(shapes, states, dtype, seed=0):
    """Inputs (states, *shape) of a function by their names. shapes: those of one state."""
    rng, model = np.random.default_rng(seed), biped()
    q, v = standing(states, seed, model)
    known = {
        "q": q,
        "v": v,
        "dt": np.full(states, DT),
        "friction": rng.uniform(0.2, 1.0, states),
        "restitution": rng.uniform(0.0, 0.5, states),
        "height": rng.uniform(-0.003, 0.003, states),
        "gain": rng.uniform(5.0, 20.0, states),
        "aim": rng.uniform(0.3, 0.4, states),
        "mass": model.parameters("mass")["mass"] * rng.uniform(0.8, 1.2, (states, 1)),
    }
    if "active" in shapes:
        known["active"] = rng.integers(0, 2, size=(states, *shapes["active"]))
    if "impulse" in shapes:
        known["impulse"] = 0.02 * rng.uniform(size=(states, *shapes["impulse"]))
    others = {x: rng.normal(size=(states, *shape)) for x, shape in shapes.items()}
    return {x: known.get(x, y).astype(dtype) for x, y in others.items()}
