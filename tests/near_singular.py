"""Robots whose mass matrix is singular, nearly singular, or made of figures of many magnitudes."""

import numpy as np

import featherlane as fl

AXES = ((0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 2, 3))


def _solid(rng, scale=1.0):
    A, m = rng.normal(size=(3, 3)), scale * float(np.exp(rng.normal()))
    return {
        "mass": m,
        "com": tuple(0.2 * rng.normal(size=3)),
        "inertia": m * (0.02 * A @ A.T + 1e-3 * np.eye(3)),
    }


def chained(rng, types, bodies, axes=None, places=None):
    """A chain of joints of these types on links with these figures."""
    builder = fl.ModelBuilder("chain")
    builder.link("link0")
    for n, (kind, body) in enumerate(zip(types, bodies, strict=True), 1):
        builder.link(f"link{n}", **body)
        axis = axes[n - 1] if axes else AXES[rng.integers(4)]
        place = tuple(0.3 * rng.normal(size=3)) if places is None else places[n - 1]
        builder.joint(f"joint{n}", kind, f"link{n - 1}", f"link{n}", axis=axis, xyz=place)
    return builder.build()


def tiny_tip(rng, size):
    """The last body is `size` as large as the others, in mass and inertia."""
    bodies = [_solid(rng), _solid(rng), _solid(rng, size)]
    return chained(rng, ("revolute",) * 3, bodies)


def point_on_axis(rng, size):
    """The last joint turns a point mass on its axis, whose inertia about it is next to none."""
    moments = np.diag([0.0, 0.0, size]) + size * np.eye(3)
    bodies = [_solid(rng), _solid(rng), {"mass": 1.0, "com": (0, 0, 0.1), "inertia": moments}]
    axes = (AXES[1], AXES[3], AXES[0])
    return chained(rng, ("revolute",) * 3, bodies, axes)


def wrist(rng, size):
    """Three axes through one point, of which the first and the third are one but for an angle."""
    bodies = [{}, {}, _solid(rng)]
    axes, places = (
        ((0, 0, 1), (0, 1, 0), (size, 0, 1)),
        [tuple(rng.normal(size=3)), (0,) * 3, (0,) * 3],
    )
    return chained(rng, ("revolute",) * 3, bodies, axes, places)


def parallel_slides(rng, size):
    """Two slides of one body whose axes differ by an angle."""
    bodies = [_solid(rng), {}, _solid(rng)]
    axes = ((0, 0, 1), (1, 0, 0), (1, size, 0))
    return chained(rng, ("revolute", "prismatic", "prismatic"), bodies, axes)


def same_axis_twice(rng, size):
    """Two joints about one axis, and a body of little inertia between them."""
    bodies = [_solid(rng), _solid(rng, size), _solid(rng)]
    axes, places = ((0, 1, 0), (0, 0, 1), (0, 0, 1)), [tuple(rng.normal(size=3))] * 2 + [(0,) * 3]
    return chained(rng, ("revolute",) * 3, bodies, axes, places)


def ratios(rng, size):
    """Masses over many magnitudes, heavy ones beyond light ones too."""
    span = abs(np.log10(size)) / 2
    bodies = [_solid(rng, 10.0 ** rng.uniform(-span, span)) for _ in range(4)]
    types = [("revolute", "prismatic")[rng.integers(2)] for _ in range(4)]
    return chained(rng, types, bodies)


FAMILIES = (tiny_tip, point_on_axis, wrist, parallel_slides, same_axis_twice, ratios)


def robot(seed):
    """The robot of a seed: the family in turn, and how near it is to singular."""
    rng = np.random.default_rng(seed)
    return FAMILIES[seed % len(FAMILIES)](rng, 10.0 ** rng.uniform(-20, -1))


def state(model, seed, dtype):
    """One state; in each third of the seeds at q = 0, which may be singular by itself."""
    rng = np.random.default_rng(seed)
    q, v, a, tau = rng.normal(size=(4, model.nv))
    q = q * (seed % 3 > 0)
    given = {"q": q, "v": v, "a": a, "tau": tau}
    return {name: x.astype(dtype) for name, x in given.items()}
