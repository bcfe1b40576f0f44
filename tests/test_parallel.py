"""Dynamics parallel in the links give what the serial algorithms give, on chains and trees of every
joint type, and graphs whose depth grows like a logarithm.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import textbook
from repetition import full, repeated
from test_identities import (
    ALL,
    BATCH,
    CHAINS,
    MIMIC,
    TREES,
    array,
    close,
    conditioned,
    name,
    run,
    sample,
    scalars,
)

from featherlane import algorithms
from featherlane.algorithms import parallel
from featherlane.algorithms.derivatives import world_fixed
from featherlane.algorithms.elimination import ELIMINATIONS
from featherlane.algorithms.scan import PATHS, SCANS
from featherlane.api.random_robots import chain, random_tree
from featherlane.program.nested import build, flatten
from featherlane.program.trace import STEPS, Tracing, following, program_of, trace
from featherlane.robot.parts import IDENTITY, Placement
from featherlane.robot.spatial import Vector, cross, spatial, split
from featherlane.robot.tree_of import build_tree

KINDS = ("revolute", "spherical", "prismatic", "universal", "helical", "free", "cylindrical")
LONG = [
    textbook.tree(KINDS, seed=1, physics=True),
    random_tree(20, 1.3, seed=2, roots=2, physics=True),
    random_tree(9, np.inf, seed=3),
    random_tree(13, 2, KINDS, seed=4),
]
METHODS = sorted(PATHS | SCANS)
FORWARD = parallel.FORWARD_DYNAMICS
FEW = [LONG[0], LONG[3], MIMIC[3]]
SOME = [*FEW, *(m for m in (*ALL[::7], *MIMIC, *LONG) if m not in FEW)]
some = pytest.mark.parametrize("model", repeated(SOME, len(FEW)), ids=name)
SOME_TREES = [*TREES[::7], *LONG]
SOME_CHAINS = [*CHAINS[::7], LONG[0]]


def wrenches(model, seed=1):
    """On all bodies of the tree, also those between the axes of a universal joint."""
    f = np.random.default_rng(seed).normal(size=(BATCH, model.tree.nbodies, 6))
    return [Vector(x) for x in scalars(f, 2)]


def apart(model):
    """The tree in which every body has its own mass."""
    return build_tree(model, regroup=False)


def forward(kind, model, q, v, tau, **options):
    algorithm, _, regroup = FORWARD[kind]
    return array(
        algorithm(build_tree(model, regroup=regroup), *map(scalars, (q, v, tau)), **options)
    )


def takes(method, model):
    return FORWARD[method].refusal(build_tree(model, regroup=FORWARD[method].regroup)) is None


# Inverse dynamics


@pytest.mark.parametrize("together", [False, True])
@some
def test_scanned_inverse_dynamics(model, together):
    q, v, a, _ = sample(model)
    f_ext = wrenches(model)
    wanted = run(algorithms.rnea, model, q, v, a)
    pushed = run(partial(algorithms.rnea, f_ext=f_ext), model, q, v, a)
    scanned = partial(parallel.scanned_inverse_dynamics, together=together)
    close(run(scanned, model, q, v, a), wanted)
    close(run(partial(scanned, f_ext=f_ext), model, q, v, a), pushed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("together", repeated([True, False]))
def test_all_scans_give_the_same(method, together):
    for model in LONG:
        q, v, a, _ = sample(model)
        scanned = partial(parallel.scanned_inverse_dynamics, together=together, method=method)
        close(run(scanned, model, q, v, a), run(algorithms.rnea, model, q, v, a))


def test_blocks_of_links():
    for model in LONG[:2]:
        q, v, a, tau = sample(model)
        wanted = run(algorithms.rnea, model, q, v, a), run(algorithms.aba, model, q, v, tau)
        for block in (1, 3, 50):
            options = {"method": "reduce_then_scan", "block": block}
            scanned = partial(parallel.scanned_inverse_dynamics, **options)
            close(run(scanned, model, q, v, a), wanted[0])
            for kind in ("abia", "dca"):
                found = forward(kind, model, q, v, tau, **options)
                close(found, wanted[1], conditioned(model, q))


@pytest.mark.parametrize("kind", FORWARD)
def test_forward_dynamics_with_all_scans(kind):
    model = LONG[0]
    q, v, _, tau = sample(model)
    wanted = run(algorithms.aba, model, q, v, tau)
    for method in METHODS:
        close(forward(kind, model, q, v, tau, method=method), wanted, conditioned(model, q))


ON_MOVING_GROUND = {
    "rnea": algorithms.rnea,
    "scan": parallel.scanned_inverse_dynamics,
    "together": partial(parallel.scanned_inverse_dynamics, together=True),
    "aba": algorithms.aba,
    "abia": parallel.abia,
    "jsiia": parallel.jsiia,
    "dca": parallel.dca,
}


@pytest.mark.parametrize("kind", ON_MOVING_GROUND)
def test_the_ground_may_move(kind):
    """As body 0 of a floating robot does: the rest of it feels no difference."""
    kinds = ("free", "revolute", "spherical", "prismatic", "universal")
    floating = textbook.tree(kinds, (-1, 0, 1, 0, 3), seed=4)
    root = replace(floating.joints[0], placement=IDENTITY)
    floating = replace(floating, joints=(root, *floating.joints[1:]))
    fixed = replace(
        floating,
        joints=tuple(replace(joint, parent=joint.parent - 1) for joint in floating.joints[1:]),
        bodies=floating.bodies[1:],
        frames=(),
    )
    q, v, a, _ = sample(floating)
    q[:, 3:7] = [0, 0, 0, 1]  # gravity is the same for both
    velocity, acceleration = [Vector(scalars(np.roll(x[:, :6], 3, -1))) for x in (v, a)]
    (w, vo), (dw, ao) = split(velocity), split(acceleration)
    moving = {"base_velocity": velocity, "base_acceleration": spatial(dw, ao + cross(w, vo))}

    def on_moving_ground(made, *state):
        return ON_MOVING_GROUND[kind](replace(made, **moving), *state)

    tau = run(algorithms.rnea, floating, q, v, a)[:, 6:]
    forward = kind in ("aba", *FORWARD)
    given, wanted = (tau, a[:, 6:]) if forward else (a[:, 6:], tau)
    model = fixed
    made = build_tree(model, regroup=kind != "dca")
    found = array(on_moving_ground(made, *map(scalars, (q[:, 7:], v[:, 6:], given))))
    close(found, wanted, 1e-10)


def test_an_unknown_scan_is_refused():
    with pytest.raises(ValueError, match="method is 'fast'"):
        parallel.scanned_inverse_dynamics(LONG[2].tree, [0.0] * 99, [0.0] * 99, [0.0] * 99,
                                          method="fast")  # fmt: skip


# Derivatives


@some
def test_scanned_derivatives(model):
    q, v, a, _ = sample(model)
    f_ext = wrenches(model)
    for options in ({}, {"f_ext": f_ext, "fixed": [world_fixed(f) for f in f_ext]}):
        wanted = run(partial(algorithms.inverse_dynamics_derivatives, **options), model, q, v, a)
        found = run(partial(parallel.scanned_derivatives, **options), model, q, v, a)
        for x, y in zip(found, wanted, strict=True):
            close(x, y)


# Forward dynamics


@pytest.mark.parametrize(
    ("method", "model"),
    [
        case
        for method in FORWARD
        for case in repeated(
            [(method, model) for model in SOME if takes(method, model)],
            sum(takes(method, model) for model in FEW),
        )
    ],
)
def test_forward_dynamics(method, model):
    """Those that take robots without mimic joints take 9 of 10 of them; jsiia takes all."""
    q, v, _, tau = sample(model)
    for options in ({}, {"f_ext": wrenches(model)}):
        serial = partial(algorithms.factored_forward_dynamics, **options)
        wanted = run(serial, model, q, v, tau)
        close(forward(method, model, q, v, tau, **options), wanted, conditioned(model, q))


def test_what_methods_take():
    for method in FORWARD:
        assert takes(method, LONG[0])
        assert all(takes(method, model) == (method != "cfa") for model in LONG[1:])
        assert all(takes(method, model) == (method == "jsiia") for model in MIMIC)
    assert all(takes("cfa", model) for model in CHAINS)


@pytest.mark.parametrize("method", ["abia", "cfa", "dca"])
def test_what_a_method_does_not_take_it_says_and_what_does(method):
    with pytest.raises(ValueError, match=f"{method} .*mimic.*'keep'"):
        forward(method, MIMIC[0], *[np.zeros((1, 3))] * 3)
    with pytest.raises(ValueError, match="chains, and this robot has branches"):
        forward("cfa", LONG[2], *[np.zeros((1, 99))] * 3)


def test_an_inertia_without_inverse_is_refused_by_name():
    model = chain(4, 0)
    point = replace(model.bodies[2], inertia=((0.0,) * 3,) * 3)
    model = replace(model, bodies=(*model.bodies[:2], point, model.bodies[3]))
    with pytest.raises(ValueError, match="body 2 is singular"):
        forward("cfa", model, *[np.zeros((1, 4))] * 3)
    q, v, _, tau = sample(model)
    wanted = run(algorithms.aba, model, q, v, tau)
    close(forward("dca", model, q, v, tau), wanted, conditioned(model, q))


@pytest.mark.parametrize("elimination", ELIMINATIONS)
@pytest.mark.parametrize("refinements", [0, 1])
def test_all_eliminations_give_the_same(elimination, refinements):
    for model in (LONG[0], chain(13, 5)):
        q, v, _, tau = sample(model)
        found = forward("cfa", model, q, v, tau, elimination=elimination, refinements=refinements)
        close(found, run(algorithms.aba, model, q, v, tau), conditioned(model, q, 1000))


@pytest.mark.parametrize("method", ["cfa", "dca"])
@pytest.mark.parametrize("armature", [0.0, 1e-6, 0.3, 1e4])
def test_armature_at_run_time(method, armature):
    """Also where it happens to be zero."""
    model = chain(5, 1)
    q, v, _, tau = sample(model)
    given = {"armature": [np.full(BATCH, armature)] * 5}
    lists = [scalars(x) for x in (q, v, tau)]
    found = FORWARD[method].algorithm(build_tree(model, given, regroup=False), *lists)
    tolerance = max(1e-10, 1e-13 * armature)  # beside large rotors the links' inertia loses digits
    close(array(found), array(algorithms.aba(build_tree(model, given), *lists)), tolerance)


def massless(model, *bodies):
    none = {"mass": 0.0, "inertia": ((0.0,) * 3,) * 3}
    return replace(
        model,
        bodies=tuple(replace(b, **none) if i in bodies else b for i, b in enumerate(model.bodies)),
    )


@pytest.mark.parametrize("method", ["abia", "cfa", "dca"])
@pytest.mark.parametrize("regroup", [True, False])
def test_bodies_without_mass(method, regroup):
    """Three slides and a ball, as MJCF has them, and a crossing without mass; cfa wants mass where
    it is."""
    slides = ("prismatic", "prismatic", "prismatic", "spherical", "revolute", "revolute")
    models = [massless(textbook.tree(slides, seed=2), 0, 1, 2, 4)]
    if method != "cfa":
        models.append(massless(textbook.tree(slides, (-1, 0, 1, 1, 3, 3), seed=3), 0, 1, 3))
    for model in models:
        q, v, _, tau = sample(model)
        algorithm = FORWARD[method].algorithm
        lists = [scalars(x) for x in (q, v, tau)]
        options = {"f_ext": wrenches(model)}
        serial = partial(algorithms.aba, **options)
        found = array(
            algorithm(build_tree(model, regroup=regroup and method != "cfa"), *lists, **options)
        )
        close(found, run(serial, model, q, v, tau), conditioned(model, q, 1000))


@pytest.mark.parametrize("method", FORWARD)
def test_planar_and_straight_chains(method):
    """Their tips do not give way in all directions."""
    for step in ((0.3, 0.0, 0.0), (0.0, 0.0, 0.3)):
        model = chain(9, 2)
        joints = [
            replace(j, placement=Placement.of(np.eye(3), step), axis=(0.0, 0.0, 1.0))
            for j in model.joints
        ]
        model = replace(model, joints=tuple(joints))
        q, v, _, tau = sample(model)
        q[0] = 0
        wanted = run(algorithms.aba, model, q, v, tau)
        close(forward(method, model, q, v, tau), wanted, conditioned(model, q))


# Steps


class Hidden:
    """A number with which nothing can be done but in a step."""

    def __init__(self, value):
        self.value = value


def outside_steps(function, *args):
    """(result, number of steps) of a function whose arguments are hidden outside of its steps."""
    count = 0

    def moved(value, change):
        form = flatten(value, Hidden, scalars := [])
        return build(form, iter([change(x) for x in scalars]))

    def opened(x):
        return x.value if isinstance(x, Hidden) else x

    def hide(x):
        return x if isinstance(x, Hidden) else Hidden(x)

    class Hiding(Tracing):
        def call(self, function, *arguments):
            nonlocal count
            flatten(arguments, Hidden, scalars := [])
            if not any(isinstance(x, Hidden) for x in scalars):
                return function(*arguments)
            count += 1
            with following(None):
                return moved(function(*[moved(x, opened) for x in arguments]), hide)

    with following(Hiding()):
        result = function(*[[Hidden(x) for x in values] for values in args])
    return moved(result, opened), count


ALGORITHMS = {
    "scan": (parallel.scanned_inverse_dynamics, 9),
    "together": (partial(parallel.scanned_inverse_dynamics, together=True), 7),
    "abia": (parallel.abia, 12),
    "dca": (parallel.dca, 10),
}


@pytest.mark.parametrize("kind", ALGORITHMS)
@pytest.mark.parametrize("model", repeated([massless(LONG[3], 0, 2), *LONG]), ids=name)
def test_all_arithmetic_is_in_steps(kind, model):
    """And in few of them: about so many for each link, when scans are serial."""
    algorithm, most = ALGORITHMS[kind]
    made = build_tree(model, regroup=kind != "dca")
    rng = np.random.default_rng(3)
    q, v, x = model.random_configuration(seed=rng), *rng.normal(size=(2, model.nv))
    args = [q.tolist(), v.tolist(), x.tolist()]
    f_ext = [Vector(f) for f in rng.normal(size=(made.nbodies, 6)).tolist()]
    own = partial(algorithm, made, f_ext=f_ext, method="serial")
    found, steps = outside_steps(own, *args)
    assert found == own(*args)
    assert steps <= most * made.nbodies + 3


@pytest.mark.parametrize(
    "algorithm", [algorithms.inverse_dynamics_derivatives, parallel.scanned_derivatives]
)
def test_all_arithmetic_of_derivatives_is_in_steps(algorithm):
    for model in [*LONG, MIMIC[0]]:
        rng = np.random.default_rng(3)
        q, v, x = model.random_configuration(seed=rng), *rng.normal(size=(2, model.nv))
        args = [q.tolist(), v.tolist(), x.tolist()]
        f_ext = [Vector(f) for f in rng.normal(size=(model.tree.nbodies, 6)).tolist()]
        for fixed in (None, [world_fixed(f) for f in f_ext]):
            own = partial(algorithm, model.tree, f_ext=f_ext, fixed=fixed)
            assert outside_steps(own, *args)[0] == own(*args)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_longer_chains_have_no_other_steps(kind):
    algorithm, _ = ALGORITHMS[kind]

    def kinds(n):
        made, shapes = build_tree(chain(n, 1), regroup=kind != "dca"), dict.fromkeys("qva", (n,))
        own = partial(algorithm, made, method="reduce_then_scan", block=4)
        return sorted(f.name for f in program_of(own, shapes, STEPS).functions)

    assert kinds(32) == kinds(64)


CROSSED = massless(textbook.tree(KINDS, seed=5, physics=True), 1, 2)


@pytest.mark.parametrize(
    ("elimination", "most"), [("serial", 22), ("odd_even", 35), ("cyclic_reduction", 22)]
)
@pytest.mark.parametrize("model", repeated([CROSSED, LONG[0], chain(20, 3)]), ids=name)
def test_arithmetic_of_constraint_forces_is_in_steps(elimination, most, model):
    made, rng = apart(model), np.random.default_rng(3)
    q, v, tau = model.random_configuration(seed=rng), *rng.normal(size=(2, model.nv))
    args = [q.tolist(), v.tolist(), tau.tolist()]
    own = partial(parallel.cfa, made, method="serial", elimination=elimination)
    found, steps = outside_steps(own, *args)
    assert found == own(*args)
    assert steps <= most * made.nbodies


@pytest.mark.parametrize("elimination", ELIMINATIONS)
def test_longer_chains_have_no_other_steps_of_constraint_forces(elimination):
    def kinds(n):
        made, shapes = apart(chain(n, 1)), dict.fromkeys("qva", (n,))
        own = partial(parallel.cfa, made, method="serial", elimination=elimination)
        return sorted(f.name for f in program_of(own, shapes, STEPS).functions)

    assert kinds(16) == kinds(32)


# Accuracy


def relative_error(x, wanted):
    return np.abs(np.array(x) - wanted).max() / np.abs(wanted).max()


def in_long_double(algorithm, model, *args):
    if np.finfo(np.longdouble).eps >= np.finfo(float).eps:
        pytest.skip("long double is no longer than double on this system")
    wide = [[np.longdouble(x) for x in values] for values in args]
    return np.array(algorithm(model.tree, *wide), np.longdouble)


@full
def test_two_hundred_links():
    model = chain(200, 7)
    rng = np.random.default_rng(7)
    q = model.random_configuration(seed=rng).tolist()
    v, tau = rng.normal(size=(2, 200)).tolist()
    exact = in_long_double(algorithms.aba, model, q, v, tau)
    own = apart(model)
    for method in ("jsiia", "abia", "cfa", "dca"):
        found = FORWARD[method].algorithm(
            own if method in ("cfa", "dca") else model.tree, q, v, tau
        )
        assert relative_error(found, exact) < (1e-10 if method == "jsiia" else 1e-11), method
    exact = in_long_double(algorithms.rnea, model, q, v, tau)
    for together in (False, True):
        found = parallel.scanned_inverse_dynamics(model.tree, q, v, tau, together=together)
        assert relative_error(found, exact) < 1e-13


@pytest.mark.parametrize("method", FORWARD)
@pytest.mark.parametrize("seed", repeated(range(3)))
def test_masses_over_six_orders(method, seed):
    rng = np.random.default_rng(seed)
    model = chain(24, seed)
    scaled = []
    for body in model.bodies:
        s = 10 ** rng.uniform(-3, 3)
        rows = tuple(tuple(s * x for x in row) for row in body.inertia)
        scaled.append(replace(body, mass=s * body.mass, inertia=rows))
    model = replace(model, bodies=tuple(scaled))
    q = model.random_configuration(seed=rng).tolist()
    v, tau = rng.normal(size=(2, 24)).tolist()
    exact = in_long_double(algorithms.aba, model, q, v, tau)
    found = FORWARD[method].algorithm(build_tree(model, regroup=FORWARD[method].regroup), q, v, tau)
    assert relative_error(found, exact) < 1e-8


# Graphs


def depth(algorithm, model, regroup=True):
    sizes = {"q": model.nq, "v": model.nv, "a": model.nv}
    made = build_tree(model, regroup=regroup)
    return trace(lambda *x: dict(enumerate_names(algorithm(made, *x))), sizes).cost().depth


def enumerate_names(result):
    parts = result if isinstance(result, tuple) else (result,)
    return ((f"out{i}", part) for i, part in enumerate(parts))


@pytest.mark.parametrize(
    ("algorithm", "round_"),
    repeated(
        [
            (parallel.scanned_inverse_dynamics, 16),
            (partial(parallel.scanned_inverse_dynamics, together=True), 11),
            (parallel.scanned_derivatives, 13),
        ]
    ),
)
def test_depth_grows_by_a_round_when_links_double(algorithm, round_):
    depths = [depth(algorithm, chain(n, 1)) for n in (4, 8, 16, 32)]
    assert max(np.diff(depths)) <= round_


def test_depth_of_inverse_dynamics_of_64_links():
    assert depth(parallel.scanned_inverse_dynamics, chain(64, 1)) <= 88
    assert depth(algorithms.rnea, chain(64, 1)) > 500


@pytest.mark.parametrize(("method", "round_"), repeated([("cfa", 60), ("dca", 95)]))
def test_depth_of_forward_dynamics(method, round_):
    depths = [depth(FORWARD[method].algorithm, chain(n, 1), False) for n in (4, 8, 16)]
    assert max(np.diff(depths)) <= round_


def test_depth_on_trees():
    """A chain with a leg on every body, and a star."""
    star = random_tree(32, np.inf, seed=1)
    assert depth(parallel.scanned_inverse_dynamics, star) < 60
    parents = [-1, 0, *[i - 2 + i % 2 for i in range(2, 64)]]
    spine = textbook.tree(["revolute"] * len(parents), parents)
    assert depth(parallel.scanned_inverse_dynamics, spine) < 90
