"""Derivatives of rollouts as plans: those of a step, by the plain entries of all inputs, one after
another in one call. Forwards the states are computed again beside the directions; backwards all
states are computed again first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.functions.operations import ADJOINTS, Operation
from featherlane.functions.steps import one_step
from featherlane.program.array import trace
from featherlane.program.plan import (
    ArrayRow,
    Clear,
    Copy,
    KernelRun,
    Loop,
    Plan,
    PlanStep,
    Shape,
    Use,
)
from featherlane.program.program import Program


class Sum(NamedTuple):
    """A piece of a plan that adds arrays of these shapes to as many others."""

    shapes: tuple[Shape, ...]

    @property
    def key(self) -> str:
        """Returns the key of its code in the cache."""
        return f"sum {[*self.shapes]}"

    def program(self) -> Program:
        count = len(self.shapes)

        def add(*terms: Any) -> dict[str, Any]:
            pairs = zip(terms[:count], terms[count:], strict=True)
            return {f"s{k}": x + y for k, (x, y) in enumerate(pairs)}

        inputs = {f"{x}{k}": shape for x in "xy" for k, shape in enumerate(self.shapes)}
        return Program(trace(add, inputs))


Planned = tuple[Plan, list[Operation | Sum]]
STATE = ("q", "v")
BY_STEP = ("tau", "f_ext", "active")  # inputs with a row for each step
FIRST = ArrayRow("zero")  # in a loop of one round


def derivative_plan(op: Operation) -> Planned:
    """Returns the plan of the first derivative of a rollout, and what its runs call."""
    return _backwards(op) if op.steps[0].mode == ADJOINTS else _forwards(op)


def _step(op: Operation) -> Operation:
    """Returns the step that a rollout repeats."""
    return op._replace(variant=one_step(op.variant, "step"), steps=())


def _run(number: int, op: Operation, arrays: dict[str, Use], row: ArrayRow) -> KernelRun:
    """Returns a run of an operation, on the arrays of its inputs and outputs but for those of
    `arrays`.
    """
    arrays = {**{name: Use(name, row) for name in BY_STEP}, **arrays}
    return KernelRun(number, tuple(arrays.get(x, Use(x)) for x in [*op.inputs, *op.outputs]))


def _by_kept(op: Operation, body: Sequence[PlanStep], kept: Sequence[PlanStep]) -> Loop:
    """Returns a loop over the steps, number "n", and after each state that is kept, number "m"."""
    every = op.variant.every
    inner = Loop("i", every, tuple(body), total="n", outer="m")
    return Loop("m", op.variant.steps // every, (inner, *kept))


def _forwards(op: Operation) -> Planned:
    """Plans the state and its direction, step by step."""
    step, p, wrt = _step(op), op.prefix, op.steps[0].wrt
    along = step.tangents([*STATE, *[x for x in wrt if x not in STATE]])
    moving = [f"{p}{x}" for x in STATE]
    temporaries: dict[str, Shape] = {}
    begin, after = list[PlanStep](), list[PlanStep]()
    now, then = dict[str, Use](), dict[str, Use]()
    for x in (*STATE, *moving):
        now[x], then[f"{x}_next"] = Use(f"{x}_now"), Use(f"{x}_then")
        temporaries |= dict.fromkeys((f"{x}_now", f"{x}_then"), along.inputs[x])
        begin.append(Copy(Use(x), now[x]) if x in op.inputs else Clear(now[x]))
        after.append(Copy(then[f"{x}_next"], now[x]))
    n = ArrayRow("n")
    arrays = {**now, **then, **{f"{p}{x}": Use(f"{p}{x}", n) for x in BY_STEP}}
    runs = [_run(0, step, arrays, n), _run(1, along, arrays, n)]
    keep = lambda row: [Copy(now[x], Use(f"{x}_kept", row)) for x in moving]
    loop = _by_kept(op, [*runs, *after], keep(ArrayRow("m", 1, 1)))
    steps = [*begin, Loop("zero", 1, tuple(keep(FIRST))), loop]
    return Plan(op.inputs, op.outputs, steps, temporaries), [step, along]


def _again(op: Operation, path: dict[str, str]) -> Loop:
    """Returns a loop that leaves all states in rows of temporaries, which have the first ones."""
    row = ArrayRow("k")
    states = {x: Use(path[x], row) for x in STATE}
    states |= {f"{x}_next": Use(path[x], ArrayRow("k", 1, 1)) for x in STATE}
    return Loop("k", op.variant.steps, (_run(0, _step(op), states, row),))


def _backwards(op: Operation) -> Planned:
    """Plans all states again; then, from the last step to the first one, the gradients by the state
    before a step from those by the state after it. Gradients by inputs that all steps share add up.
    """
    step, p, last = _step(op), op.prefix, op.variant.steps
    others = [x for x in op.steps[0].wrt if x not in STATE]
    summed = [x for x in others if x not in BY_STEP]
    back = step.adjoints([*STATE, *others])
    total, before, more = (
        {x: Use(f"{x}_{which}") for x in (*STATE, *summed)} for which in ("total", "before", "more")
    )
    path = {x: f"{x}_path" for x in STATE}
    shapes = {x: step.inputs[x] for x in total}
    temporaries = {path[x]: (last + 1, *shapes[x]) for x in STATE}
    temporaries |= {each[x].array: shapes[x] for each in (total, before, more) for x in each}
    kept = lambda x, row: Use(f"{p}{x}_kept", row)

    count = last // op.variant.every
    first = [Copy(Use(x), Use(path[x], FIRST)) for x in STATE]
    first += [Copy(kept(x, ArrayRow("zero", 1, count)), total[x]) for x in STATE]
    row = ArrayRow("n", -1, last - 1)
    arrays = {x: Use(path[x], row) for x in STATE}
    arrays |= {f"{p}{x}": Use(f"{p}{x}", row) for x in BY_STEP}
    arrays |= {f"{p}{x}": use for x, use in before.items()}
    arrays |= {f"{p}{x}_next": total[x] for x in STATE}
    body: list[PlanStep] = [_run(1, back, arrays, row), *[Copy(before[x], total[x]) for x in STATE]]
    pieces: list[Operation | Sum] = [step, back, Sum(tuple(shapes[x] for x in STATE))]
    if summed:
        pieces.append(Sum(tuple(shapes[x] for x in summed)))
        terms = (each[x] for each in (total, before, more) for x in summed)
        body += [KernelRun(3, tuple(terms)), *[Copy(more[x], total[x]) for x in summed]]
    of_kept = [kept(x, ArrayRow("m", -1, count - 1)) for x in STATE]
    both = KernelRun(2, (*[before[x] for x in STATE], *of_kept, *[total[x] for x in STATE]))
    steps: list[PlanStep] = [Clear(total[x]) for x in summed]
    steps += [Loop("zero", 1, tuple(first)), _again(op, path), _by_kept(op, body, [both])]
    steps += [Copy(total[x], Use(f"{p}{x}")) for x in op.steps[0].wrt if x in total]
    return Plan(op.inputs, op.outputs, steps, temporaries), pieces
