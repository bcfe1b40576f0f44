"""Records of a model's functions and their derivatives of any order, as other packages' automatic
differentiation asks for them: products of Jacobians with tangents (forward mode) and with adjoints
(reverse mode), by the plain entries of all inputs, q included. `differentiated.py` compiles them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from featherlane.errors import instead, keyword_instead
from featherlane.field_names import meaning
from featherlane.functions.arguments import steps_of
from featherlane.functions.constraint_inputs import constraints_in, with_usual
from featherlane.functions.ground_inputs import ground_in
from featherlane.functions.sensors import Sensing, with_sensors
from featherlane.functions.table import CALLED, Variant
from featherlane.functions.variants import input_shapes, output_shapes
from featherlane.robot.model import Robot
from featherlane.robot.parameters import PARAMETERS

Shapes = Mapping[str, tuple[int, ...]]
Inputs = tuple[str, ...]
TANGENTS, ADJOINTS = "tangents", "adjoints"
OPTIONS = {*Variant._fields} - {"name", "wrenches", "parameters"}  # arguments have other names
ONCE = (
    "rollout has first derivatives only: for second ones call step of the wrapped model for each "
    "row of tau, in a loop of Python or in jax.lax.scan"
)


class DerivativeStep(NamedTuple):
    """One differentiation. mode: TANGENTS or ADJOINTS; wrt: the inputs that vary."""

    mode: str
    wrt: Inputs


class Operation(NamedTuple):
    """A variant of a function of a model, differentiated step by step; hashable.

    Each step's new inputs follow the others: directions of `wrt`, or weights of the outputs.
    """

    model: Robot
    variant: Variant
    steps: tuple[DerivativeStep, ...] = ()

    def tangents(self, wrt: Sequence[str]) -> Operation:
        """The derivatives of all outputs along directions of some inputs."""
        return self._differentiated(TANGENTS, wrt)

    def adjoints(self, wrt: Sequence[str]) -> Operation:
        """The derivatives by some inputs of the outputs times weights."""
        return self._differentiated(ADJOINTS, wrt)

    def _differentiated(self, mode: str, wrt: Sequence[str]) -> Operation:
        if self.variant.steps and self.steps:
            raise NotImplementedError(ONCE)
        return self._replace(steps=(*self.steps, DerivativeStep(mode, tuple(wrt))))

    @property
    def before(self) -> Operation:
        """The operation that the last step differentiated."""
        return self._replace(steps=self.steps[:-1])

    @property
    def transposed(self) -> Operation:
        """The linear map of the last step's inputs, in the other direction."""
        before, (mode, wrt) = self.before, self.steps[-1]
        return before.adjoints(wrt) if mode == TANGENTS else before.tangents(wrt)

    @property
    def inputs(self) -> Shapes:
        if not self.steps:
            return input_shapes(self.model, self.variant)
        inputs, (mode, wrt) = self.before.inputs, self.steps[-1]
        new = {x: inputs[x] for x in wrt} if mode == TANGENTS else self.before.outputs
        return {**inputs, **{self.prefix + x: shape for x, shape in new.items()}}

    @property
    def outputs(self) -> Shapes:
        if not self.steps:
            return output_shapes(self.model, self.variant)
        before, (mode, wrt) = self.before, self.steps[-1]
        new = before.outputs if mode == TANGENTS else {x: before.inputs[x] for x in wrt}
        return {self.prefix + x: shape for x, shape in new.items()}

    @property
    def prefix(self) -> str:
        """The prefix of the names of the last step's inputs and outputs."""
        return f"{'d' if self.steps[-1].mode == TANGENTS else 'w'}{len(self.steps)}_"


def positions_of(name: str) -> list[str]:
    """Returns the arguments of a function by position, as its method of a model has them."""
    entry = CALLED[name]
    inputs = [x for x in entry.inputs if x not in entry.usual]
    held = ["constraints", "active"] if entry.kind == "constrained" else []
    others = [x for x in (*entry.takes, *entry.usual) if x not in held]
    return [*inputs, *held, *others]


def bound(
    name: str,
    args: Sequence[Any],
    named: Mapping[str, Any],
    more: Sequence[Any] = (),
    sensing: Sensing = (None, ()),
) -> tuple[Variant, tuple[Any, ...]]:
    """The variant that a call asks for, and its arrays in the order of the variant's inputs.

    The arguments are those of the model's method: the arrays of `CALLED[name]`, f_ext,
    f_ext_frame, params, frame, reference, wrt and whatever else a Variant has, by position or by
    name. The steps of a rollout are the rows of tau. more: the arrays of a policy; sensing: its
    sensors, which other functions have among their arguments.
    """
    entry = CALLED[name]
    order = positions_of(name)
    if len(args) > len(order):
        raise TypeError(f"{name} got {len(args)} arguments, wanted {', '.join(order)}")
    arguments = {**dict(zip(order, args, strict=False)), **named}
    arguments = with_usual(entry, arguments)
    if missing := [x for x in entry.inputs if x not in arguments]:
        if word := next((x for x in named if meaning(x, missing)), None):
            raise TypeError(f"{name} got an unknown {word!r}{instead(word, missing)}")
        raise TypeError(f"{name} misses {', '.join(missing)}: wanted {', '.join(entry.inputs)}")
    arguments |= steps_of(name, arguments)
    arrays = [*(arguments.pop(x) for x in entry.inputs), *more]
    params, f_ext = arguments.pop("params", None) or {}, arguments.pop("f_ext", None)
    axes, method = arguments.pop("f_ext_frame", "body"), arguments.pop("method", None)
    if "reference" in entry.takes:
        arguments.setdefault("reference", "body")
    if "constraints" in entry.takes:
        held, with_them = constraints_in(arguments)
        arrays += with_them
        arguments |= {"constraints": held} if held else {}
    if "ground" in entry.takes:
        ground, with_it = ground_in(arguments)
        arrays += with_it
        arguments |= {"ground": ground} if ground else {}
    if "sensors" in entry.takes:
        if arguments.keys() & {"sensors", "parameters"}:
            sensing = with_sensors(*(arguments.pop(x, None) for x in ("sensors", "parameters")))
        sensors, read = sensing
        arrays += read
        arguments |= {"sensors": sensors} if sensors else {}
    if unknown := [x for x in arguments if x not in OPTIONS]:
        raise TypeError(
            f"{name} got an unknown {unknown[0]!r}{keyword_instead(name, unknown[0], order)}"
        )
    if isinstance(f_ext, Mapping):
        raise TypeError("f_ext is a dict: wanted an array (..., nbodies, 6) here")
    if f_ext is not None:
        arrays.append(f_ext)
    parameters = tuple(x for x in PARAMETERS if x in params)
    if len(parameters) < len(params):
        wrong = next(x for x in params if x not in PARAMETERS)
        raise ValueError(f"params names {wrong!r}{instead(wrong, PARAMETERS)}")
    variant = Variant(
        name,
        None if f_ext is None else axes,
        parameters,
        method=None if method == "auto" else method,
        **arguments,
    )
    return variant, (*arrays, *[params[x] for x in parameters])
