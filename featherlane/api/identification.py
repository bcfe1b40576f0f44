"""Identification of inertial parameters: base parameters and physically consistent ones.

These functions take arrays: rows of `inverse_dynamics_regressor`, with further columns for damping,
friction or armature if these are identified too. docs/identification.md has an example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from featherlane.functions.array_like import ArrayLike
from featherlane.robot.model import Robot

__all__ = [
    "BaseParameters",
    "base_parameters",
    "consistent_parameters",
    "inertial_of",
    "parameter_names",
    "pseudo_inertia",
]

INERTIAL = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
NEWTON_STEPS = 200  # at most; 10 to 50 are usual
DEPENDENT = 1e-9  # relative to a column's norm: a smaller remainder is rounding


def _numbers(values: Any, name: str) -> np.ndarray:
    if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it first, or leave out the masked rows")
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {values!r:.60}: wanted an array of numbers") from None


def parameter_names(model: Robot) -> list[str]:
    """Returns names of the regressor's 10 * nbodies columns: 'm link', 'mx link' ... 'Izz link'.

    Arguments:
        model: the robot

    Examples:
        >>> fl.identification.parameter_names(arm)[:2]
        ['m link1', 'mx link1']
    """
    return [f"{name} {body}" for body in model.body_names for name in INERTIAL]


class BaseParameters(NamedTuple):
    """The r combinations of p parameters pi on which the dynamics depend: base = combinations @ pi.

    They multiply r columns of the regressor: Y pi = Y[:, columns] base. `base_parameters` computes
    them.

    Examples:
        >>> states = [np.random.default_rng(k).normal(size=(50, 2)) for k in range(3)]
        >>> found = fl.identification.base_parameters(arm.inverse_dynamics_regressor(*states))
        >>> found.columns.shape, found.combinations.shape
        ((6,), (6, 20))
    """

    columns: np.ndarray  # (r,), int: the independent columns
    combinations: np.ndarray  # (r, p): 1 at the independent column, factors of those regrouped

    @property
    def alone(self) -> np.ndarray:
        """The indices of parameters that can be identified individually."""
        return self.columns[np.count_nonzero(self.combinations, axis=1) == 1]

    @property
    def without_effect(self) -> np.ndarray:
        """The indices of parameters that have no effect and cannot be identified."""
        return np.flatnonzero(~self.combinations.any(axis=0))


def base_parameters(Y: ArrayLike) -> BaseParameters:
    """Returns the base parameters of a regressor Y (..., rows, p), stacked over states.

    A column that depends linearly on earlier columns is regrouped with them: parameters that a link
    shares with its parent are assigned to the parent. Random states give the base parameters of the
    robot; the states of a trajectory give those that the trajectory excites. Gautier, Numerical
    calculation of the base inertial parameters of robots, 1991. Raises ValueError for numbers that
    are not finite.

    Arguments:
        Y: (..., rows, p), from `inverse_dynamics_regressor`. The regressor of many states

    Examples:
        >>> states = [np.random.default_rng(k).normal(size=(50, 2)) for k in range(3)]
        >>> Y = arm.inverse_dynamics_regressor(*states)
        >>> fl.identification.base_parameters(Y).columns.shape
        (6,)
    """
    Y = _numbers(Y, "Y")
    if Y.ndim < 2 or not np.isfinite(Y).all():
        raise ValueError(f"Y has shape {Y.shape}: wanted (..., rows, p), all numbers finite")
    R = np.linalg.qr(Y.reshape(-1, Y.shape[-1]), mode="r")  # same dependences of columns as Y
    size = np.linalg.norm(R, axis=0)
    scale = np.where(size > DEPENDENT * size.max(initial=0), size, 0)
    unit = np.divide(R, scale, out=np.zeros_like(R), where=scale > 0)
    columns = _independent(unit)
    K = np.linalg.lstsq(unit[:, columns], unit, rcond=None)[0]
    K = np.where(np.abs(K) > DEPENDENT, K, 0) * scale / scale[columns, None]
    K[:, columns] = np.eye(len(columns))
    return BaseParameters(columns, K)


def _independent(unit: np.ndarray) -> np.ndarray:
    """Returns the columns that do not depend on those before, by Gram-Schmidt done twice."""
    basis, columns = np.zeros((len(unit), 0)), []
    for k, column in enumerate(unit.T):
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > DEPENDENT:
            basis = np.column_stack([basis, rest / size])
            columns.append(k)
    return np.array(columns, int)


def pseudo_inertia(inertial: ArrayLike) -> np.ndarray:
    """Returns P (..., 4, 4) = [[S, h], [h^T, m]] of the parameters `parameters("inertial")`.

    S = int x x^T dm, h = m c, in the body's frame. P is positive semidefinite if and only if some
    mass distribution that is nowhere negative has these parameters; for any invertible A, the same
    holds for A P A^T. Wensing, Kim and Slotine, Linear matrix inequalities for physically
    consistent inertial parameter identification, IEEE RA-L 2018. Raises ValueError for other
    shapes.

    Arguments:
        inertial: (..., 10), kg, kg m and kg m^2. The parameters m, m c and the inertia

    Examples:
        >>> P = fl.identification.pseudo_inertia(arm.parameters("inertial")["inertial"])
        >>> P.shape, bool((np.linalg.eigvalsh(P) > 0).all())
        ((2, 4, 4), True)
    """
    x = _numbers(inertial, "inertial")
    if not x.ndim or x.shape[-1] != 10:
        raise ValueError(f"inertial has shape {x.shape}, wanted (..., 10): {', '.join(INERTIAL)}")
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(x, -1, 0)
    half = (xx + yy + zz) / 2
    rows = [[half - xx, -xy, -xz, hx], [-xy, half - yy, -yz, hy], [-xz, -yz, half - zz, hz],
            [hx, hy, hz, m]]  # fmt: skip
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def inertial_of(P: ArrayLike) -> np.ndarray:
    """Returns the inertial parameters (..., 10) of pseudo-inertias (..., 4, 4). Raises ValueError
    for other shapes.

    Arguments:
        P: (..., 4, 4), kg, kg m and kg m^2. The pseudo-inertias

    Examples:
        >>> inertial = arm.parameters("inertial")["inertial"]
        >>> P = fl.identification.pseudo_inertia(inertial)
        >>> np.allclose(fl.identification.inertial_of(P), inertial)
        True
    """
    P = _numbers(P, "P")
    if P.shape[-2:] != (4, 4):
        raise ValueError(f"P has shape {P.shape}, wanted (..., 4, 4)")
    (xx, xy, xz, hx), (_, yy, yz, hy), (_, _, zz, hz), (*_, m) = np.moveaxis(P, (-2, -1), (0, 1))
    return np.stack([m, hx, hy, hz, yy + zz, -xy, xx + zz, -xz, -yz, xx + yy], -1)


BASIS = pseudo_inertia(np.eye(10))  # P is linear in the parameters


def consistent_parameters(
    Y: ArrayLike, tau: ArrayLike, prior: ArrayLike, *, weight: float = 1.0
) -> np.ndarray:
    """Returns physically consistent parameters (p,) that fit tau = Y x.

    They minimise |Y x - tau|^2 / 2 + weight sum_i D(P_i, prior_i), where D = log det(prior P^-1) +
    tr(prior^-1 P) - 4; Newton's method finds the unique minimum. D does not depend on frames or
    units, and grows without bound towards inconsistent bodies. Directions that Y does not excite
    are determined by the prior.

    Parameters of the columns of Y after 10 * nbodies are unconstrained (friction, for example).
    Lee, Wensing and Park, Geometric robot dynamic identification, IEEE T-RO 2020. Raises ValueError
    for an inconsistent prior, for linearly dependent unconstrained columns, and for other shapes.

    Arguments:
        Y: (rows, p). The regressor, divided by the standard deviation of the noise, so that with
            weight 1 a row counts as much as D
        tau: (rows,). The joint forces, divided by the same
        prior: (nbodies, 10), kg, kg m and kg m^2. Consistent inertial parameters
        weight: the factor of the distances D from the prior

    Examples:
        >>> states = [np.random.default_rng(k).normal(size=(50, 2)) for k in range(3)]
        >>> Y = arm.inverse_dynamics_regressor(*states)
        >>> prior = arm.parameters("inertial")["inertial"]
        >>> tau = arm.with_physics(damping=0).inverse_dynamics(*states)
        >>> fit = fl.identification.consistent_parameters(Y.reshape(100, 20), tau.ravel(), prior)
        >>> np.allclose(fit, prior.ravel())
        True
    """
    Y, tau, prior = _numbers(Y, "Y"), _numbers(tau, "tau"), _numbers(prior, "prior")
    _check(Y, tau, prior, weight)
    Q, R = np.linalg.qr(Y)
    fit = _Fit(R, Q.T @ tau, np.linalg.inv(pseudo_inertia(prior)), weight)
    x = np.concatenate([prior.ravel(), np.zeros(Y.shape[1] - prior.size)])
    fit = fit._replace(weight=max(weight, float(np.sum((R @ x - fit.c) ** 2))))
    for _ in range(NEWTON_STEPS):
        step, slope = fit.newton(x)
        x = fit.search(x, step, slope)
        if -slope < 1e-12 * weight and fit.weight == weight:
            return x
        if -slope < fit.weight / 16:  # a lower weight at once would leave the consistent region
            fit = fit._replace(weight=max(weight, fit.weight / 10))
    raise ValueError(
        f"no minimum in {NEWTON_STEPS} steps: with weight {weight:g} the data pull bodies to the "
        "boundary of physical consistency; give the prior more weight"
    )


def _check(Y: np.ndarray, tau: np.ndarray, prior: np.ndarray, weight: float) -> None:
    if prior.ndim != 2 or prior.shape[1] != 10:
        raise ValueError(f"prior has shape {prior.shape}, wanted (nbodies, 10)")
    if Y.ndim != 2 or Y.shape[1] < prior.size or tau.shape != Y.shape[:1]:
        raise ValueError(
            f"Y has shape {Y.shape} and tau {tau.shape}, wanted (rows, p) and (rows,) with p at "
            f"least 10 * nbodies = {prior.size}: stack the states"
        )
    free = Y[:, prior.size :]
    if (np.linalg.matrix_rank(free) if free.size else 0) < free.shape[1]:
        columns = f"the {free.shape[1]} columns of Y after the bodies' are linearly dependent"
        raise ValueError(f"{columns}: did a joint not move? Leave some out")
    if not weight > 0:
        raise ValueError(f"weight is {weight}, wanted a positive number")
    least = np.linalg.eigvalsh(pseudo_inertia(prior))[:, 0]
    if not np.all(least > 0):
        i = int(np.argmin(least))
        eigenvalue = f"its pseudo-inertia has the eigenvalue {least[i]:.3g}"
        wanted = "wanted all above zero, as for mass spread over a volume"
        raise ValueError(f"body {i} of the prior is not possible: {eigenvalue}, {wanted}")


class _Fit(NamedTuple):
    """|R x - c|^2 / 2 + weight (sum of tr(Q P) - log det P), with Q the prior's inverse."""

    R: np.ndarray
    c: np.ndarray
    Q: np.ndarray
    weight: float

    def factors(self, x: np.ndarray) -> np.ndarray:
        """Returns L with P = L L^T of each body. Raises LinAlgError for an inconsistent one."""
        return np.linalg.cholesky(pseudo_inertia(x[: 10 * len(self.Q)].reshape(-1, 10)))

    def value(self, x: np.ndarray) -> float:
        try:
            L = self.factors(x)
        except np.linalg.LinAlgError:
            return np.inf
        distance = np.sum((self.Q @ L) * L) - 2 * np.sum(np.log(L.diagonal(axis1=1, axis2=2)))
        return float(np.sum((self.R @ x - self.c) ** 2) / 2 + self.weight * distance)

    def newton(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Returns Newton's step and the slope of the value along it.

        The Hessian is J^T J and the gradient J^T r, so that QR of J solves for the step. The rows
        of D in J and r are the matrices L^-1 dP L^-T and L^T Q L - 1.
        """
        L, root = self.factors(x), np.sqrt(self.weight)
        inverse = np.linalg.inv(L)[:, None]
        turned = inverse @ BASIS @ np.swapaxes(inverse, -1, -2)  # [body, parameter, 4, 4]
        G = np.zeros((len(L), 16, self.R.shape[1]))
        for i, columns in enumerate(turned.reshape(-1, 10, 16)):
            G[i, :, 10 * i : 10 * i + 10] = root * columns.T
        rest = root * (np.swapaxes(L, -1, -2) @ self.Q @ L - np.eye(4))
        J = np.concatenate([self.R, G.reshape(-1, self.R.shape[1])])
        orthogonal, T = np.linalg.qr(J)
        down = orthogonal.T @ np.concatenate([self.R @ x - self.c, rest.ravel()])
        return -np.linalg.solve(T, down), -float(down @ down)

    def search(self, x: np.ndarray, step: np.ndarray, slope: float) -> np.ndarray:
        """Takes the longest step of 1, 1/2, 1/4 ... times Newton's that lowers the value enough.

        Near the minimum it takes the whole step without a test: the value is self-concordant, and
        its differences there are rounding errors.
        """
        start, length = self.value(x), 1.0
        while -slope > self.weight / 16 and not (
            self.value(x + length * step) <= start + 0.1 * length * slope
        ):
            length /= 2
        return x + length * step
