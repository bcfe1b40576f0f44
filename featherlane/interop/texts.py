"""Functions by text, for operators that take nothing but texts and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from featherlane.functions.actuation import Actuation, Actuator, Gear
from featherlane.functions.constraint_inputs import ConstraintInputs
from featherlane.functions.ground_inputs import GroundInputs
from featherlane.functions.operations import DerivativeStep, Operation
from featherlane.functions.policy import Policy
from featherlane.functions.sensors import Sensors
from featherlane.functions.table import Variant
from featherlane.functions.variants import check_variant

words = lambda text: tuple(x for x in text.split(",") if x)
READ: dict[str, Callable[[str], Any]] = {  # options of a variant that are not text
    "parameters": words,
    "at": words,
    "frame": lambda text: words(text) if text.endswith(",") else text,
    "by_wrenches": bool,
    "steps": int,
    "every": int,
    "actuation": lambda text: Actuation(tuple(map(_actuator, words(text)))),
    "policy": lambda text: _values[text],
    "constraints": lambda text: _values[text],
    "ground": lambda text: _values[text],
    "sensors": lambda text: _values[text],
}
# For as long as the process lives: a compiled graph holds no more of a model than its text
_models: dict[str, Any] = {}
_values: dict[str, Policy | ConstraintInputs | GroundInputs | Sensors] = {}


def text_of_model(model: Any) -> str:
    """A text for a model, the same in every process."""
    frames = [(f.name, *model.frame(f.name)[1:]) for f in model.frames]
    text = _digest(model.fingerprint, frames)
    _models.setdefault(text, model)
    return text


def _digest(*facts: Any) -> str:
    return sha256(repr(facts).encode()).hexdigest()[:16]


def text_of(model: str, variant: Variant) -> str:
    """The text of a function: lines for the model, the name and each option, and an empty one."""
    usual = Variant._field_defaults
    options = [
        f"{k}={_option_text(x)}" for k, x in variant._asdict().items() if x != usual.get(k, x)
    ]
    return "\n".join([model, variant.name, *options, ""])


def _option_text(x: Any) -> str:
    if isinstance(x, Actuation):
        return ",".join(":".join(map(str, _numbers(a))) for a in x.actuators)
    if isinstance(x, Policy | ConstraintInputs | GroundInputs | Sensors):
        names = x.constraints.items if isinstance(x, ConstraintInputs) else ()  # not in its repr
        text = _digest(x, names)
        _values.setdefault(text, x)
        return text
    return "".join(f"{word}," for word in x) if isinstance(x, tuple) else str(x)


def _numbers(a: Actuator) -> list[float]:
    gears = [x for k, ratio, at in a.gears for x in (k, float(ratio), at)]
    return [*a.control, a.gain, *a.bias, *a.force, *gears]


def _actuator(text: str) -> Actuator:
    low, high, gain, b0, b1, b2, least, most, *last = map(float, text.split(":"))
    parts = zip(last[::3], last[1::3], last[2::3], strict=True)
    gears = tuple(Gear(int(k), ratio, int(at)) for k, ratio, at in parts)
    return Actuator(gears, (low, high), gain, (b0, b1, b2), (least, most))


@cache
def operation(text: str) -> Operation:
    """The function that a text names. Raises ValueError as `Model.function` does."""
    head, _, tail = text.partition("\n\n")
    model, name, *lines = head.rstrip("\n").split("\n")
    pairs = [line.split("=", 1) for line in lines]
    options: dict[str, Any] = {k: READ.get(k, str)(x) for k, x in pairs}
    op = Operation(_models[model], Variant(name, **options))
    check_variant(_models[model], op.variant)
    pairs = [line.split("=", 1) for line in tail.split("\n") if line]
    return op._replace(
        steps=tuple(DerivativeStep(mode, tuple(wrt.split(","))) for mode, wrt in pairs)
    )


def tangents(text: str, moving: Sequence[bool]) -> str:
    """The text of a function's derivative along directions of the inputs that are moving."""
    op = operation(text)
    return _differentiated(text, op.tangents(_chosen(op, moving)))


def adjoints(text: str, wanted: Sequence[bool]) -> str:
    """The text of the derivative of outputs times weights by the inputs that are wanted."""
    op = operation(text)
    return _differentiated(text, op.adjoints(_chosen(op, wanted)))


def _chosen(op: Operation, which: Sequence[bool]) -> list[str]:
    return [x for x, chosen in zip(op.inputs, which, strict=True) if chosen]


def _differentiated(text: str, op: Operation) -> str:
    mode, wrt = op.steps[-1]
    return f"{text}\n{mode}={','.join(wrt)}"
