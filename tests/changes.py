"""How dynamics and steps change along directions: by dual numbers, and by their derivatives.

Directions are of q (in the tangent space), v, and joint forces, controls or accelerations.
"""

import numpy as np
import textbook
from numpy.testing import assert_allclose

from featherlane.backends import dual
from featherlane.functions.table import FUNCTIONS


def of_step(model, q, v, tau, dt, moves, f_ext=None, **options):
    """The end of a step by name, and how [q, v] there change, in the tangent space of the end."""
    graph = model.graph("step", None if f_ext is None else "body", **options)
    dq, dv, dtau = moves
    values = {"q": q, "v": v, "tau": tau, "dt": np.broadcast_to(dt, len(q)), "f_ext": f_ext}
    rate = textbook.times(textbook.tangent(model, q), dq)
    end, moved = dual.evaluate(graph, values, {"q": rate, "v": dv, "tau": dtau})
    N = textbook.tangent(model, end["q_next"])
    tangent = textbook.times(np.linalg.pinv(N), moved["q_next"])
    return end, np.concatenate([tangent, moved["v_next"]], -1)


def by_matrices(linear, moves):
    """A [dq; dv] + B dtau."""
    dq, dv, dtau = moves
    x = np.concatenate([dq, dv], -1)
    return textbook.times(linear.A, x) + textbook.times(linear.B, dtau)


def assert_derivatives_of_dynamics(model, q, v, tau, moves):
    """Those of inverse and forward dynamics are those of dual numbers."""
    rates = {"q": textbook.times(textbook.tangent(model, q), moves[0]), "v": moves[1]}
    for name, third in (("inverse_dynamics", "a"), ("forward_dynamics", "tau")):
        values = {"q": q, "v": v, third: tau}
        _, moved = dual.evaluate(model.graph(name), values, {**rates, third: moves[2]})
        (wanted,) = moved.values()
        d = getattr(model, f"{name}_derivatives")(q, v, tau)
        last = model.mass_matrix(q) if third == "a" else d[2]
        products = zip((d[0], d[1], last), moves, strict=True)
        found = sum(textbook.times(matrix, move) for matrix, move in products)
        assert_allclose(found, wanted, atol=1e-11 * max(1.0, np.abs(wanted).max()))


def assert_methods_agree(model, q, v, tau):
    """Every named algorithm gives what the default one gives."""
    methods = {name: function.methods for name, function in FUNCTIONS.items() if function.methods}
    for name, algorithms in methods.items():
        wanted = getattr(model, name)(q, v, tau)
        for method in algorithms:
            found = model.function(name, method=method)(q, v, tau)
            for x, y in zip(np.atleast_3d(found), np.atleast_3d(wanted), strict=True):
                assert_allclose(x, y, rtol=1e-7, atol=1e-7)
