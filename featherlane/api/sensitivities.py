"""The user's methods for parameters, parameter derivatives and second derivatives."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from featherlane.api.compiled import Arrays, Compiled
from featherlane.functions.arguments import F32, F64, LEADING, alike, lead_of
from featherlane.functions.array_like import ArrayLike, Out, Params, Threads, Wrenches, WrenchFrame
from featherlane.functions.products import product_in_order
from featherlane.functions.results import InverseDynamicsSecondDerivatives
from featherlane.functions.shape_hints import shape_hint
from featherlane.functions.variants import check_parameters
from featherlane.robot.parameters import PARAMETERS, parameter_value


class Sensitivities(Compiled):
    """The parameters of a `featherlane.Model`, parameter derivatives and second derivatives.

    Parameters, as `params=` takes them and `parameters` returns them, in SI units: mass (nbodies,),
    com (nbodies, 3), inertia (nbodies, 6) about the centre of mass as [Ixx, Ixy, Iyy, Ixz, Iyz,
    Izz], or as matrices (nbodies, 3, 3); or inertial (nbodies, 10), [m, m c, I about the body's
    origin in the same order]; position (nbodies, 3) and orientation (nbodies, 4, quaternion xyzw)
    of the joints on their parents;
    gravity (3,); armature, damping, friction (nv,), where friction is smoothed at the velocity in
    its entry of v, also if mimic joints share that entry; stiffness and spring_reference (nv,),
    read where a joint has one degree of freedom; base_velocity, base_acceleration (6,) of
    the ground, [linear; angular] in its axes, with the linear acceleration at the world's origin,
    for inverse and forward dynamics (only the angular half of the velocity matters, and gravity is
    constant in the ground's axes). Leading dimensions broadcast: one set for all states, or one per
    state. A body here is a link with everything that is fixed to it.
    """

    def parameters(self, *names: str) -> dict[str, np.ndarray]:
        """Returns the model's values of parameters, in the form of `params=`. For bodies: mass
        (nbodies,), com (nbodies, 3), inertia (nbodies, 6), inertial (nbodies, 10), position
        (nbodies, 3) and orientation (nbodies, 4). For degrees of freedom: armature, damping,
        friction, stiffness and spring_reference (nv,). For the robot: gravity (3,), base_velocity
        and base_acceleration (6,). Units are SI: kg, m, s, rad and N m or N.

        Parameters of a body are in its axes: com is the vector from the body's origin to the centre
        of mass; inertia is [Ixx, Ixy, Iyy, Ixz, Iyz, Izz] about the centre of mass; inertial is [m,
        m c, and these six entries about the body's origin]. orientation is [x, y, z, w].

        Examples:
            >>> arm.parameters("mass")
            {'mass': array([0.26703, 0.33238])}
            >>> heavy = {"mass": 2 * arm.parameters("mass")["mass"]}
            >>> arm.inverse_dynamics(q, v, a, params=heavy).shape
            (2,)
        """
        check_parameters([name for name in names if name != "inertial"])
        return {name: parameter_value(self, name) for name in names or PARAMETERS}

    def inverse_dynamics_parameter_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        wrt: str = "inertial",
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns dtau/dp (..., nv, entries of p), N m or N per unit of p, a parameter of
        `parameters` whose entries are in C order.

        Examples:
            >>> arm.inverse_dynamics_parameter_derivatives(q, v, a, "mass").shape
            (2, 2)
        """
        name, wrenches = "inverse_dynamics_parameter_derivatives", (f_ext, f_ext_frame)
        return self._call(name, (q, v, a), params, out, threads, *wrenches, wrt=wrt)

    def inverse_dynamics_regressor(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        *,
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the regressor Y (..., nv, 10 * nbodies): tau = Y pi + armature a + damping v +
        friction + springs - J^T f_ext, with pi = parameters("inertial")["inertial"].ravel(), body
        by body.

        Atkeson, An and Hollerbach, Estimation of inertial parameters, 1986. For armature, damping
        and friction, see `inverse_dynamics_parameter_derivatives`: linear armature of a free joint
        adds terms to armature a, because its axes rotate.

        Examples:
            >>> Y = arm.inverse_dynamics_regressor(q, v, a)
            >>> pi = arm.parameters("inertial")["inertial"].ravel()
            >>> np.allclose(Y @ pi + arm.damping * v, arm.inverse_dynamics(q, v, a))
            True
        """
        return self.inverse_dynamics_parameter_derivatives(
            q, v, a, "inertial", params=params, out=out, threads=threads
        )

    def forward_dynamics_parameter_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        wrt: str = "inertial",
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns da/dp (..., nv, entries of p) = -M^-1 dtau/dp at a = FD(q, v, tau), rad/s^2 or
        m/s^2 per unit of p, whose entries are in C order.

        Examples:
            >>> arm.forward_dynamics_parameter_derivatives(q, v, tau, "damping").shape
            (2, 2)
        """
        wrenches = f_ext, f_ext_frame
        a = self._call("forward_dynamics", (q, v, tau), params, None, threads, *wrenches)
        minv = self._call("mass_matrix_inverse", (q,), params, None, threads)
        dtau = self.inverse_dynamics_parameter_derivatives(
            q, v, a, wrt, f_ext, f_ext_frame=f_ext_frame, params=params, threads=threads
        )
        return -product_in_order(minv, dtau)

    def inverse_dynamics_second_derivatives(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        threads: Threads = None,
    ) -> InverseDynamicsSecondDerivatives:
        """Returns the tensors of Singh, Russell and Wensing (IEEE RA-L, 2022), each (..., nv, nv,
        nv) indexed [tau_i, x_j, y_k], in N m or N per unit of x and y. Tensors that are not
        returned are zero, or transposes of returned ones.

        The analytic first derivatives are differentiated along each direction of the tangent space,
        with the directions in the vector lanes.

        Examples:
            >>> arm.inverse_dynamics_second_derivatives(q, v, a).d2tau_dqdq.shape
            (2, 2, 2)
        """
        name, options = "inverse_dynamics_second_derivatives", (params, f_ext, f_ext_frame)
        along = self._along(name, (q, v, a), self.nv, threads, *options)
        axes = _directions_last(along[0].ndim)
        return InverseDynamicsSecondDerivatives(*[x.transpose(axes) for x in along])

    def inverse_dynamics_hessian(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        weights: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns H (..., 3 nv, 3 nv): the second derivatives of weights . ID(q, v, a) with respect
        to x = (q, v, a).

        H[..., j, k] is d/dx_k of the derivative with respect to x_j, in the tangent space for q.

        Examples:
            >>> arm.inverse_dynamics_hessian(q, v, a, weights=[1.0, 0.0]).shape
            (6, 6)
        """
        arrays = q, v, a, weights
        return self._hessian("inverse_dynamics", arrays, threads, params, f_ext, f_ext_frame)

    def forward_dynamics_hessian(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        weights: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns H (..., 3 nv, 3 nv) as in `inverse_dynamics_hessian`, but of weights . FD(q, v,
        tau) with respect to x = (q, v, tau). For differential dynamic programming, pass the
        gradient of the value function as weights. The block by q of robots with free, spherical or
        planar joints is not symmetric, because motions in their tangent spaces do not commute.

        Examples:
            >>> H = arm.forward_dynamics_hessian(q, v, tau, weights=[1.0, 0.0])
            >>> H.shape, np.allclose(H, H.T)
            ((6, 6), True)
        """
        arrays = q, v, tau, weights
        return self._hessian("forward_dynamics", arrays, threads, params, f_ext, f_ext_frame)

    def forward_dynamics_hessian_product(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        weights: ArrayLike,
        direction: ArrayLike,
        f_ext: Wrenches = None,
        *,
        f_ext_frame: WrenchFrame = "body",
        params: Params = None,
        out: Out = None,
        threads: Threads = None,
    ) -> np.ndarray:
        """Returns the product of H and direction (..., 3 nv), a vector (..., 3 nv) in rad/s^2 or
        m/s^2 per unit of x. H is that of `forward_dynamics_hessian`, but is not formed: the product
        takes a few times the operations of forward dynamics.

        Examples:
            >>> w, x = np.ones(2), np.arange(6.0)
            >>> product = arm.forward_dynamics_hessian_product(q, v, tau, w, x)
            >>> np.allclose(product, arm.forward_dynamics_hessian(q, v, tau, w) @ x)
            True
        """
        name, arrays = "forward_dynamics_hessian_product", (q, v, tau, weights, direction)
        return self._call(name, arrays, params, out, threads, f_ext, f_ext_frame)

    def _hessian(
        self, function: str, arrays: Arrays, threads: Threads, *options: Any
    ) -> np.ndarray:
        name, count = f"{function}_hessian_product", 3 * self.nv
        return self._along(name, arrays, count, threads, *options).swapaxes(-1, -2)

    def _along(self, name: str, arrays: Arrays, count: int, threads: Threads, *options: Any) -> Any:
        """Returns a function's results along each of so many unit directions, on an axis behind the
        leading dimensions: directions fill lanes as states do. options: params, f_ext and
        f_ext_frame.
        """
        function, bound = self._bound(name, arrays, *options)
        shapes, at = [*function.inputs.values()], len(arrays)
        del shapes[at]  # that of the direction
        if shapes == [type(x) is np.ndarray and x.shape for x in bound]:  # of one state
            unit = _unit_directions(count, F32 if bound[0].dtype == F32 else F64)
            return function(*bound[:at], unit, *bound[at:], threads=threads)
        cores = {k: shape for k, shape in function.inputs.items() if k != "direction"}
        states = dict(zip(cores, bound, strict=True))
        dtype, states = alike(states)
        lead_of(states.values(), cores, partial(shape_hint, self, None), LEADING - 1)
        beside = {k: np.expand_dims(x, x.ndim - len(cores[k])) for k, x in states.items()}
        return function(**beside, direction=_unit_directions(count, dtype), threads=threads)


@cache
def _directions_last(ndim: int) -> tuple[int, ...]:
    """Returns the order of axes in which the directions come behind those of a matrix."""
    return *range(ndim - 3), ndim - 2, ndim - 1, ndim - 3


@cache
def _unit_directions(count: int, dtype: np.dtype) -> np.ndarray:
    """Returns the rows of a unit matrix, which nobody may change."""
    unit = np.eye(count, dtype=dtype)
    unit.flags.writeable = False
    return unit
