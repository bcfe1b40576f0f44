"""The base of the user's model: its functions, compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.api.card import card
from featherlane.api.parameter_values import check_not_negative
from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.progress import compiling
from featherlane.errors import (
    CompileError,
    ModelError,
    did_you_mean,
    instead,
    one_of,
    shown,
)
from featherlane.functions.actuation import FILE, Actuated, Actuation, file_actuation
from featherlane.functions.array_like import Params, Threads, WrenchFrame
from featherlane.functions.compile import (
    compile_single,
    dynamics_graph,
    dynamics_program,
    input_names,
    input_shapes,
    output_shapes,
)
from featherlane.functions.constraint_inputs import check_anchors
from featherlane.functions.fast_path import FastPath
from featherlane.functions.function import Function
from featherlane.functions.gpu import MAPPINGS, OF_PLANS, OnGPU, Source, source_of
from featherlane.functions.sequences import compile_planned, is_planned
from featherlane.functions.table import (
    CALLED,
    DEFAULT_INTEGRATOR,
    REFERENCE_HINT,
    REFERENCES,
    Variant,
)
from featherlane.functions.wrenches import WRENCH_FRAMES, stacked
from featherlane.robot import model
from featherlane.robot.constraints import Constraints, constraints_on
from featherlane.robot.massless import massless_refusal
from featherlane.robot.parameters import BASE, PARAMETERS
from featherlane.robot.tree import Tree, is_chain
from featherlane.robot.tree_of import build_tree, tree_of

Arrays = tuple[Any, ...]
LONG = 100  # links from which on algorithms are recorded steps, see "Long robots" in docs/links.md
LONG_FOR = dict.fromkeys(("scan", "abia", "cfa", "dca"), 16) | {"jsiia": 32}  # for some methods
NEVER_LONG = ("configurations", "steps", "rollouts", "constrained")  # by joints, or of others
INERTIAL = {"mass", "com", "inertia"}
WITH_INERTIA = {"mass", "inertia", "inertial", "armature"}  # what makes a mass matrix regular
_kernels: WeakValueDictionary[tuple[Any, ...], Kernel] = WeakValueDictionary()
"""Kernels that equal models share, for as long as one of the models lives."""


def check_parameters(names: Sequence[str], wrt: str | None = None) -> None:
    """Raises ValueError for unknown parameters, and for two that hold the same figures."""
    for name in (*names, *([] if wrt is None else [wrt])):
        if not isinstance(name, str) or name not in PARAMETERS:
            what = "wrt" if name == wrt else "params"
            raise ValueError(f"{what} names {name!r}{instead(str(name), PARAMETERS)}")
    together = {*names, *([wrt] if wrt and wrt != "inertial" else [])}
    if "inertial" in together and (twice := together & INERTIAL):
        raise ValueError(
            f"'inertial' is given together with {', '.join(map(repr, sorted(twice)))}: it contains "
            f"mass, centre and inertia, give one or the other"
        )


def in_order(params: Params) -> tuple[str, ...]:
    """Returns the names in the order of the table, so that all orders of a dict have one kernel."""
    if params is None:
        return ()
    if not isinstance(params, Mapping):
        kind = type(params).__name__
        raise TypeError(f"params is {kind}: wanted a dict of arrays by name, as in {{'mass': m}}")
    check_parameters(tuple(params))
    return tuple(name for name in PARAMETERS if name in params)


def settled(variant: Variant) -> Variant:
    """Returns the variant with the integrator that it has if none is asked for."""
    function = CALLED.get(variant.name) if isinstance(variant.name, str) else None
    if variant.integrator is None and function and "integrator" in function.takes:
        return variant._replace(integrator=DEFAULT_INTEGRATOR)
    return variant


ACTUATION_HINT = (
    "wanted one from model.actuation(...), or 'file' for the actuators of the robot's file"
)


class Compiled(model.Robot):
    """The functions of `functions.table.CALLED`, by name."""

    def __str__(self) -> str:
        return card(self)

    @property
    def tree(self) -> Tree:
        """The robot in the form that the algorithms read, for functions of yours that call them."""
        return tree_of(self)

    def _actuation(self, actuation: Actuated) -> Actuation | None:
        """Returns the actuation that an argument stands for."""
        if isinstance(actuation, str):
            if actuation != FILE:
                raise ValueError(f"actuation is {actuation!r}: {ACTUATION_HINT}")
            return file_actuation(self)
        return actuation

    def _function(self, variant: Variant, width: int | None = None) -> Function:
        variant = settled(variant)
        cache = self.__dict__.setdefault("_functions", {})
        key = variant, width
        try:
            function = cache.get(key)
        except TypeError:  # a list, say, in place of a name
            self._checked(variant)
            raise
        if function is None:
            function = cache.setdefault(key, self._make(*key))
            name, axes, *_ = variant
            if key == (Variant(name, axes), None) and axes != "world":
                FastPath.serve_method(self, name, function)
        return function

    def _checked(self, variant: Variant) -> None:
        name, wrenches, parameters, frame, reference, wrt, at, method, *_ = variant
        if not isinstance(name, str) or name not in CALLED:
            raise ValueError(f"there is no function {name!r}{instead(str(name), CALLED)}")
        if wrenches not in (None, *WRENCH_FRAMES):
            raise ValueError(
                f"f_ext is {wrenches!r}: {one_of(wrenches, WRENCH_FRAMES)}, the axes of that "
                "input; other options go by keyword"
            )
        check_parameters(parameters, wrt)
        if (base := {*parameters, wrt} & {*BASE}) and not CALLED[name].on_moving_ground:
            others = (other for other, function in CALLED.items() if function.on_moving_ground)
            raise ValueError(
                f"{name} takes no {min(map(str, base))}: a moving ground is possible in "
                f"{', '.join(others)}; load the robot with root='free' for the rest"
            )
        takes = CALLED[name].takes
        options: dict[str, Any]
        options = {"f_ext": wrenches, "frame": frame, "reference": reference, "wrt": wrt}
        options |= {"integrator": variant.integrator, "actuation": variant.actuation}
        for what, value in options.items():
            if value is not None and what not in takes:
                raise ValueError(f"{name} takes no {what}")
        if "wrt" in takes and wrt is None:
            raise ValueError(f"wrt is missing: wanted one of {', '.join(PARAMETERS)}")
        for place in (*at, *([frame] if "frame" in takes else [])):
            self.frame(place)  # type: ignore[arg-type]
        if "reference" in takes and reference not in REFERENCES:
            meant = did_you_mean(reference, REFERENCES)
            raise ValueError(f"reference is {reference!r}: wanted {REFERENCE_HINT}{meant}")
        self._check_constraints(variant)
        self._check_time(variant)
        if not self.nv:
            raise ValueError(f"{self.name!r} has no moving joint, so it has no dynamics")
        needs_inertia = CALLED[name].divides and not WITH_INERTIA & {*parameters}
        if needs_inertia and (why := massless_refusal(self, name)):
            raise ModelError(why)
        if method is not None:
            self._check_method(variant, method)

    def _check_constraints(self, variant: Variant) -> None:
        """Raises ValueError or TypeError for constraints that do not go with the function."""
        name, given, takes = variant.name, variant.constraints, CALLED[variant.name].takes
        if given is None:
            if CALLED[name].kind == "constrained":
                raise TypeError(f"{name} misses constraints: wanted model.constraints([...])")
            return
        if "constraints" not in takes:
            raise ValueError(f"{name} takes no constraints")
        if not isinstance(given.constraints, Constraints):
            kind = type(given.constraints).__name__
            raise TypeError(
                f"constraints is {kind}: wanted those that model.constraints(...) gives"
            )
        if given.constraints != constraints_on(self, given.constraints):
            raise ValueError(
                f"constraints are of {given.constraints.robot!r}, and mean something else in "
                f"{self.name!r}: make them by its own constraints(...)"
            )
        if given.anchors and "anchors" not in takes:
            raise ValueError(f"{name} takes no anchors")
        of_velocities = [x for x, method in INTEGRATORS.items() if method.semi_implicit]
        if "anchors" in takes and variant.integrator not in of_velocities:
            check_anchors(given, positions=name in ("constraint_error", "closing_step"))

    def _check_time(self, variant: Variant) -> None:
        """Raises ValueError or TypeError for what functions in discrete time do not take."""
        name, integrator, actuation = variant.name, variant.integrator, variant.actuation
        if integrator is not None and integrator not in tuple(INTEGRATORS):
            raise ValueError(f"integrator is {integrator!r}: {one_of(integrator, INTEGRATORS)}")
        if name == "linearize_step_reduced" and integrator and INTEGRATORS[integrator].stages > 1:
            wanted = "wanted a method of one stage; linearize_step takes all"
            raise ValueError(f"{name} got integrator={integrator!r}: {wanted}")
        if actuation is not None and not isinstance(actuation, Actuation):
            raise TypeError(f"actuation is {shown(actuation)}: {ACTUATION_HINT}")
        if actuation and any(k >= self.nv for k, *_ in actuation.actuators):
            raise ValueError(f"actuation is of another robot: {self.name!r} has nv = {self.nv}")
        if variant.by_wrenches and (name != "linearize_step" or not variant.wrenches):
            raise ValueError(f"{name} has no columns of f_ext: only linearize_step with f_ext does")
        if ("rollout" in name) != (variant.steps > 0) or variant.steps % variant.every:
            told = f"steps={variant.steps}, every={variant.every}"
            wanted = "steps from 1 on for rollouts, a multiple of every; none for others"
            raise ValueError(f"{name} got {told}: wanted {wanted}")
        if (variant.policy is not None) != (name in ("rollout_with", "policy_step")):
            raise ValueError(f"{name} and a policy do not go together: see model.rollout_with")

    def _check_method(self, variant: Variant, method: str) -> None:
        name, known = variant.name, CALLED[variant.name].methods
        if method not in known:
            wanted = one_of(method, ("auto", *known))
            raise ValueError(f"method of {name} is {method!r}: {wanted}")
        refusals = {}
        for other, entry in known.items():
            tree = tree_of(self) if entry.regroup else build_tree(self, regroup=False)
            refusals[other] = entry.refusal(tree)
        if why := refusals[method]:
            others = ", ".join(repr(other) for other, no in refusals.items() if not no)
            raise ValueError(f"method={method!r} cannot handle {self.name!r}: {why}; use {others}")

    def _is_long(self, variant: Variant) -> bool:
        """Whether one piece of code would be too long. Chains are long from half as many links,
        matrices from 1,250 pairs of joints on one path (measured: docs/links.md).
        """
        if CALLED[variant.name].kind in NEVER_LONG:
            return False
        # Few links are never long. A first call from the cache needs no tree, which takes 25 ms.
        links = sum(kind.links for kind in self.types)
        if links < LONG // 2 and variant.method not in LONG_FOR:
            return False
        tree = tree_of(self)
        if variant.method in LONG_FOR:
            return tree.nbodies >= min(LONG, LONG_FOR[variant.method])
        if CALLED[variant.name].by_pairs:
            return sum(map(len, tree.above)) >= LONG**2 // 8
        return tree.nbodies * (2 if is_chain(tree) else 1) >= LONG

    def _steps(self, variant: Variant) -> Callable[[np.dtype], Any] | None:
        """Returns what makes the evaluator of a long robot. Few robots need those modules, and the
        others do not wait for them: a twentieth of the package's import.
        """
        if not self._is_long(variant):
            return None
        from featherlane.functions.long import choose

        return choose.evaluator(self, variant)

    def _make(self, variant: Variant, width: int | None) -> Function:
        self._checked(variant)
        kernel: Callable[[np.dtype], Any] = partial(self._kernel, variant, width)
        single = partial(self._kernel, variant, "single") if width is None else None
        if (steps := self._steps(variant)) is not None:
            if width is not None:
                raise CompileError(
                    f"width is {width}: for {self.name!r}, a long robot, the batch size sets it"
                )
            kernel, single = steps, None
        inputs, outputs = input_shapes(self, variant), output_shapes(self, variant)
        collect = CALLED[variant.name].collect
        explain = partial(self._explain, actuation=variant.actuation)
        origin = Compiled._function, (self, variant, width)
        graph = partial(dynamics_graph, self, variant)
        gpu = self._on_gpu(variant, steps is not None)
        return Function(
            variant.name, inputs, outputs, kernel, collect, explain, single, origin, graph, gpu
        )

    def _on_gpu(self, variant: Variant, is_long: bool) -> OnGPU:
        """How GPUs run a variant. The modules for long robots are imported for those alone."""
        if not is_long:
            mappings = OF_PLANS if is_planned(self, variant) else MAPPINGS
            source = partial(self._source, variant)
            return OnGPU(self._key(variant), source, mappings=mappings)
        from featherlane.functions.long.on_gpu import LongOnGPU

        return LongOnGPU(self._key(variant), self, variant)

    def _source(self, variant: Variant) -> Source:
        """What computes a variant on GPUs. Raises CompileError for steps of long robots."""
        dynamics = Variant("forward_dynamics")
        if CALLED[variant.name].kind in ("steps", "rollouts") and self._is_long(dynamics):
            told = f"{variant.name} of {self.name!r}"
            raise CompileError(f"{told}: steps of robots of so many links have no kernels for GPUs")
        return source_of(self, variant)

    def _kernel(self, variant: Variant, form: int | str | None, dtype: np.dtype) -> Kernel:
        """Returns the kernel of a variant, which equal models share. form: the lanes of vectors,
        None for the widest, or "single" for the kernel of one state.
        """
        own = self._key(variant)
        key = own, dtype, form
        kernel = _kernels.get(key)
        if kernel is None:  # two threads may both come here, and make the same
            one = ", one state" * (form == "single")
            with compiling(f"{variant.name} of {self.name} ({dtype}{one})"):
                kernel = _kernels[key] = self._compiled(variant, form, dtype, own)
        return kernel

    def _key(self, variant: Variant) -> str:
        """What the code of a variant depends on: frames by their places, not by their names."""
        named = (variant.frame, *variant.at)
        places = [self.frame(name)[1:] for name in named if name is not None]
        plain = variant._replace(frame=None, at=())
        return repr((self.fingerprint, plain, tuple(places)))

    def _compiled(
        self, variant: Variant, form: int | str | None, dtype: np.dtype, key: str
    ) -> Kernel:
        """The kernel of a variant, from the cache or compiled. key: of a variant of a robot."""
        if is_planned(self, variant):
            piece = lambda piece: self._kernel(piece, form, dtype)
            return compile_planned(self, variant, key, dtype, piece, form == "single")
        if isinstance(form, str):
            return compile_single(self, variant, key, dtype)
        return compile_program(partial(dynamics_program, self, variant), key, dtype, form)

    def _explain(
        self, name: str, shape: tuple[int, ...], actuation: Actuation | None = None
    ) -> str:
        """Returns the likely confusion behind a wrong shape."""
        last = shape[-1] if shape else None
        if actuation and name in ("tau", "dtau"):
            return self._explain_controls(actuation)
        if name == "f_ext":
            return self._explain_wrenches(shape)
        if name in ("active", "restitution", "anchors"):
            return "one for each of the constraints, in their order, see print(constraints)"
        if name == "direction":
            return f"the model has nv = {self.nv}, as many entries along each of q, v and tau"
        if name in PARAMETERS:
            return f"model.parameters({name!r}) has the model's own"
        if name not in ("q", "q0", "q1", "v", "a", "tau"):
            return ""
        wanted = "nq" if name.startswith("q") else "nv"
        size = f"the model has {wanted} = {getattr(self, wanted)}"
        if len(shape) == 2 and shape[0] == getattr(self, wanted):
            return f"{size}; states go in rows, pass {name}.T"
        if self.nq == self.nv:
            return size
        free = "a free joint takes 7 entries of q (position, quaternion xyzw) and 6 of v"
        other, size_of_other = ("v", self.nv) if wanted == "nq" else ("q", self.nq)
        if last == size_of_other:
            return f"{size}; this is the size of {other}. {free[0].upper()}{free[1:]}"
        return f"{size}; {free}" if any(t.name == "free" for t in self.types) else size

    def _explain_wrenches(self, shape: tuple[int, ...]) -> str:
        told = f"one [force; moment] for each of the {self.nbodies} moving bodies"
        if shape[-2:] == (self.nbodies + 1, 6):
            return f"{told}; the ground has none (of Pinocchio's universe: pass f_ext[1:])"
        turned = shape[-2:] == (6, self.nbodies)
        return f"{told}; they go in rows, pass np.swapaxes(f_ext, -1, -2)" if turned else told

    def _explain_controls(self, actuation: Actuation) -> str:
        own = {self.first_v[i]: self.joints[i].name for i in self.independent}
        names = ", ".join(own[k] for k, *_ in actuation.actuators)
        count = "1 control" if actuation.controls == 1 else f"{actuation.controls} controls"
        return f"the actuation has {count}, of {names}"

    @cached_property
    def _asked(self) -> dict[tuple[Any, ...], Function]:
        """The functions that methods have asked for, by name, wrenches, method and options."""
        return {}

    def _bound(
        self,
        name: str,
        arrays: Arrays,
        params: Params = None,
        f_ext: Any = None,
        f_ext_frame: WrenchFrame = "body",
        method: str = "auto",
        **options: Any,
    ) -> tuple[Function, Arrays]:
        """Returns the function that a method's arguments ask for, and all arrays for its call.

        options: `frame`, `integrator` and others, as in Variant.
        """
        asked = name, f_ext is None, f_ext_frame, method, *options.values()
        usual = params is None and (f_ext is None or type(f_ext) is np.ndarray)
        try:
            if usual:
                return self._asked[asked], arrays if f_ext is None else (*arrays, f_ext)
        except (KeyError, TypeError):  # the first time, or something that is refused below
            pass
        if f_ext_frame not in WRENCH_FRAMES:
            raise ValueError(
                f"f_ext_frame is {f_ext_frame!r}: {one_of(f_ext_frame, WRENCH_FRAMES)}"
            )
        if not isinstance(method, str):
            raise TypeError(f"method is {method!r}: wanted a name, as in method='auto'")
        names = in_order(params)
        values = tuple(params[name] for name in names) if params else ()
        if params:
            check_not_negative(self, name, params)
        at: tuple[str, ...] = ()
        if isinstance(f_ext, Mapping):
            own = input_names(Variant(name, method=None, **options))[: len(arrays)]
            told = (*own, *names)
            others = dict(zip(told, (*arrays, *values), strict=True))
            at, f_ext = stacked(f_ext, others) if f_ext else ((), None)
        if f_ext is not None:
            arrays = (*arrays, f_ext)
        axes = None if f_ext is None else f_ext_frame
        chosen = None if method == "auto" else method
        if options.get("actuation") is not None:
            options["actuation"] = self._actuation(options["actuation"])
        variant = Variant(name, axes, names, at=at, method=chosen, **options)
        function = self._function(variant)
        if usual:
            self._asked[asked] = function  # next time without this work, half of a call's time
        return function, (*arrays, *values)

    def _call(
        self,
        name: str,
        arrays: Arrays,
        params: Params = None,
        out: Any = None,
        threads: Threads = None,
        *wrenches: Any,
        **options: Any,
    ) -> Any:
        """Calls that function. wrenches: f_ext and f_ext_frame, where the function takes them."""
        function, given = self._bound(name, arrays, params, *wrenches, **options)
        return function(*given, out=out, threads=threads)
