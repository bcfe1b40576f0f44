"""Functions of a model by their names: as a `Function` of plain arrays, and as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from featherlane.algorithms.integrators import Integrator
from featherlane.api.compiled import Arrays
from featherlane.api.configurations import Configurations
from featherlane.errors import nearest
from featherlane.functions.actuation import Actuated
from featherlane.functions.array_like import Frames, Reference, WrenchFrame
from featherlane.functions.device_copies import copied
from featherlane.functions.function import Function
from featherlane.functions.policy import Policy
from featherlane.functions.sensors import Sensors
from featherlane.functions.table import Variant
from featherlane.functions.tracing import dynamics_graph
from featherlane.functions.variants import check_variant, variant_of_graph
from featherlane.program.graph import Graph
from featherlane.robot.constraints import Constraints
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.ground import Ground


class FunctionsByName(Configurations):
    """The methods of a `featherlane.Model` that return its functions by name."""

    def function(
        self,
        name: str,
        f_ext: WrenchFrame | None = None,
        *,
        params: Iterable[str] = (),
        frame: Frames | None = None,
        reference: Reference | None = None,
        wrt: str | None = None,
        method: str | None = None,
        integrator: Integrator | None = None,
        actuation: Actuated = None,
        by_wrenches: bool = False,
        steps: int = 0,
        policy: Policy | None = None,
        every: int = 1,
        constraints: Constraints | None = None,
        active: bool = False,
        anchors: bool = False,
        kp: bool = False,
        kd: bool = False,
        ground: Ground | None = None,
        law: Coulomb | None = None,
        ground_params: Iterable[str] = (),
        sensors: Sensors | None = None,
        width: int | None = None,
        device: str | None = None,
        mapping: str | None = None,
        backend: str | None = None,
        format: str | None = None,
        ranges: Mapping[str, Any] | None = None,
    ) -> Function:
        """Returns one of the functions (a key of `featherlane.FUNCTIONS`, or the name of a method)
        as a `Function` of plain arrays.

        f_ext: None, or the axes ("body" or "world") of an additional input f_ext (nbodies, 6).
        params: parameters that are further inputs, see `parameters`. frame, reference: of functions
        of a frame. wrt: the parameter of a derivative. method: the name of an algorithm, by default
        the one with the fewest operations. integrator, actuation, by_wrenches, steps, policy,
        every: of functions in discrete time, see `step`, `actuation`, `linearize_step`, `rollout`
        and `policy`. constraints, active, anchors, kp, kd: the constraints, from `constraints`, and
        whether arrays of these names are inputs. ground, law, ground_params: the ground, the law of
        contact, and the names of the arrays of `ground_params` that are inputs. sensors: those of
        steps and rollouts, from `sensors`, whose parameters are inputs. width: the lanes of a
        vector, by default as many as the processor has; results do not depend on it.

        device: "cuda", or "cuda:1" if there are several, copies NumPy arrays to a GPU and results
        back; arrays that live on a GPU need no device. mapping: how the work is mapped to threads
        of a GPU: "lanes", "team:4" or, for long robots, "links:8" (docs/gpu.md); by default the
        mapping expected to be the fastest.

        backend: "fixed" computes in fixed point, as a circuit would. format: a uniform format such
        as "q16.16", or "proved" or "fitted"; "proved24" and "fitted24/16" set other numbers of bits
        than 32, or 27 and 18 for constants, sines and cosines. ranges: (low, high) of inputs by
        name. The defaults are the limits of q and v (without limits, 8 rad or m, and per s), 16
        rad/s^2 or m/s^2 for a, 128 N or N m for f_ext, and for tau and minv twice the values of
        samples of these (docs/fpga.md).

        Raises ValueError naming the argument.

        Examples:
            >>> step = arm.function("step", integrator="rk4")
            >>> step
            <Function step(q[2], v[2], tau[2], dt[]) -> (q_next[2], v_next[2])>
            >>> step(q, v, tau, dt).q.shape
            (2,)
        """
        variant = variant_of_graph(
            self,
            name,
            f_ext,
            params=params,
            frame=frame,
            reference=reference,
            wrt=wrt,
            method=method,
            integrator=integrator,
            actuation=actuation,
            by_wrenches=by_wrenches,
            steps=steps,
            policy=policy,
            every=every,
            constraints=constraints,
            active=active,
            anchors=anchors,
            kp=kp,
            kd=kd,
            ground=ground,
            law=law,
            ground_params=ground_params,
            sensors=sensors,
        )
        if backend not in (None, "cpu"):
            return self._on_backend(variant, backend, format, ranges, (width, device, mapping))
        if format is not None or ranges is not None:
            raise ValueError("format and ranges are of backend='fixed'")
        return copied(self._function_of(variant, width).mapped(mapping), device)

    def _on_backend(
        self, variant: Variant, backend: Any, format: Any, ranges: Any, others: Arrays
    ) -> Function:
        """Returns a function in fixed point."""
        if backend != "fixed":
            device = "; GPUs are a device: device='cuda'" if nearest(backend, ("cuda",)) else ""
            raise ValueError(f"backend is {backend!r}: wanted 'cpu' or 'fixed'{device}")
        if any(x is not None for x in others):
            raise ValueError("backend='fixed' takes no width, device or mapping")
        from featherlane.api.fixed import fixed_function  # few need it

        return fixed_function(self, variant, format, ranges)

    def graph(
        self,
        name: str,
        f_ext: WrenchFrame | None = None,
        *,
        params: Iterable[str] = (),
        frame: Frames | None = None,
        reference: Reference | None = None,
        wrt: str | None = None,
        method: str | None = None,
        integrator: Integrator | None = None,
        actuation: Actuated = None,
        by_wrenches: bool = False,
        steps: int = 0,
        policy: Policy | None = None,
        every: int = 1,
        constraints: Constraints | None = None,
        active: bool = False,
        anchors: bool = False,
        kp: bool = False,
        kd: bool = False,
        ground: Ground | None = None,
        law: Coulomb | None = None,
        ground_params: Iterable[str] = (),
        sensors: Sensors | None = None,
    ) -> Graph:
        """Returns the dataflow graph of a function, as traced from the algorithm; `graph.cost()`
        counts its operations. The arguments are those of `function`.

        Examples:
            >>> arm.graph("inverse_dynamics")
            <Graph (q[2], v[2], a[2]) -> (tau[2]): 75 nodes>
        """
        variant = variant_of_graph(
            self,
            name,
            f_ext,
            params=params,
            frame=frame,
            reference=reference,
            wrt=wrt,
            method=method,
            integrator=integrator,
            actuation=actuation,
            by_wrenches=by_wrenches,
            steps=steps,
            policy=policy,
            every=every,
            constraints=constraints,
            active=active,
            anchors=anchors,
            kp=kp,
            kd=kd,
            ground=ground,
            law=law,
            ground_params=ground_params,
            sensors=sensors,
        )
        check_variant(self, variant)
        return dynamics_graph(self, variant)
