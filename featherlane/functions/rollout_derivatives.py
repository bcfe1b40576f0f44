"""Derivatives of rollouts as plans: those of a step, by the plain entries of all inputs, one after
another in one call. Forwards the states are computed again beside the directions; backwards all
states are computed again first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from featherlane.backends.cpu.compile import Kernel, compile_program
from featherlane.backends.cpu.sequence.kernel import compile_plan
from featherlane.backends.cpu.sequence.plan import (
    Clear,
    Copy,
    Loop,
    Plan,
    Row,
    Run,
    Shape,
    Step,
    Use,
)
from featherlane.functions.steps import one_step
from featherlane.program.array import trace
from featherlane.program.program import Program

if TYPE_CHECKING:
    from featherlane.functions.operations import Operation

Piece = Callable[[np.dtype], Kernel | None]
Planned = tuple[Plan, list[Piece]]
STATE = ("q", "v")
BY_STEP = ("tau", "f_ext")  # inputs with a row for each step
FIRST = Row("zero")  # in a loop of one round


def compile_derivative(op: Operation, key: str, dtype: np.dtype, backwards: bool) -> Kernel:
    """The kernel of the first derivative of a rollout."""
    plan, pieces = (_backwards if backwards else _forwards)(op)
    made = [piece(dtype) for piece in pieces]
    parts = [part for part in made if part is not None]  # steps have kernels for all robots
    return compile_plan(plan, parts, f"{key} plan", dtype, False)


def _step(op: Operation) -> Operation:
    """The step that a rollout repeats."""
    return op._replace(variant=one_step(op.variant, "step"), steps=())


def _kernel_of(op: Operation) -> Piece:
    return lambda dtype: op.function().kernel(dtype)


def _run(number: int, op: Operation, arrays: dict[str, Use], row: Row) -> Run:
    """A run of an operation, on the arrays of its inputs and outputs but for those of `arrays`."""
    arrays = {**{name: Use(name, row) for name in BY_STEP}, **arrays}
    return Run(number, tuple(arrays.get(x, Use(x)) for x in [*op.inputs, *op.outputs]))


def _by_kept(op: Operation, body: Sequence[Step], kept: Sequence[Step]) -> Loop:
    """A loop over the steps, number "n", and after each state that is kept, number "m"."""
    every = op.variant.every
    inner = Loop("i", every, tuple(body), total="n", outer="m")
    return Loop("m", op.variant.steps // every, (inner, *kept))


def _forwards(op: Operation) -> Planned:
    step, p, wrt = _step(op), op.prefix, op.steps[0].wrt
    along = step.tangents([*STATE, *[x for x in wrt if x not in STATE]])
    moving = [f"{p}{x}" for x in STATE]
    temporaries: dict[str, Shape] = {}
    begin, after, kept = list[Step](), list[Step](), list[Step]()
    now, then = dict[str, Use](), dict[str, Use]()
    for x in (*STATE, *moving):
        now[x], then[f"{x}_next"] = Use(f"{x}_now"), Use(f"{x}_then")
        temporaries |= dict.fromkeys((f"{x}_now", f"{x}_then"), along.inputs[x])
        still = x in moving and x.removeprefix(p) not in wrt
        begin.append(Clear(now[x]) if still else Copy(Use(x), now[x]))
        after.append(Copy(then[f"{x}_next"], now[x]))
    first = Loop("zero", 1, tuple(Copy(now[x], Use(f"{x}_kept", FIRST)) for x in moving))
    kept += [Copy(now[x], Use(f"{x}_kept", Row("m", 1, 1))) for x in moving]
    n = Row("n")
    by_step = {f"{p}{x}": Use(f"{p}{x}", n) for x in BY_STEP}
    runs = [_run(0, step, now | then, n), _run(1, along, now | then | by_step, n)]
    steps = [*begin, first, _by_kept(op, [*runs, *after], kept)]
    return Plan(op.inputs, op.outputs, steps, temporaries), [_kernel_of(step), _kernel_of(along)]


def _backwards(op: Operation) -> Planned:
    step, p, wrt, last = _step(op), op.prefix, op.steps[0].wrt, op.variant.steps
    others = [x for x in wrt if x not in STATE]
    back = step.adjoints([*STATE, *others])
    summed = [x for x in others if x not in BY_STEP]
    kept_row = Row("m", -1, last // op.variant.every - 1)
    totals = {x: Use(f"{x}_total") for x in (*STATE, *summed)}
    found = {x: Use(f"{x}_found") for x in totals}
    sums = {x: Use(f"{x}_sum") for x in summed}
    paths = {x: f"{x}_path" for x in STATE}
    shapes = {x: step.inputs[x] for x in totals}
    temporaries = {path: (last + 1, *shapes[x]) for x, path in paths.items()}
    for uses in (totals, found, sums):
        temporaries |= {use.array: shapes[x] for x, use in uses.items()}
    # All states again
    first: list[Step] = [Copy(Use(x), Use(path, FIRST)) for x, path in paths.items()]
    ends = [Copy(Use(f"{p}{x}_kept", Row("zero", 1, last // op.variant.every)), totals[x])
            for x in STATE]  # fmt: skip
    here = {x: Use(path, Row("k")) for x, path in paths.items()}
    next_ = {f"{x}_next": Use(path, Row("k", 1, 1)) for x, path in paths.items()}
    again = Loop("k", last, (_run(0, step, here | next_, Row("k")),))
    # From the last step to the first one
    row = Row("n", -1, last - 1)
    arrays = {x: Use(path, row) for x, path in paths.items()}
    arrays |= {f"{p}{x}": Use(f"{p}{x}", row) for x in BY_STEP}
    arrays |= {f"{p}{x}": use for x, use in found.items()}
    arrays |= {f"{p}{x}_next": totals[x] for x in STATE}
    body: list[Step] = [_run(1, back, arrays, row), *[Copy(found[x], totals[x]) for x in STATE]]
    pieces = [_kernel_of(step), _kernel_of(back), _sum_of([shapes[x] for x in STATE])]
    if summed:
        pieces.append(_sum_of([shapes[x] for x in summed]))
        terms = [*[totals[x] for x in summed], *[found[x] for x in summed], *sums.values()]
        body = [body[0], Run(3, tuple(terms)), *body[1:]]
        body += [Copy(sums[x], totals[x]) for x in summed]
    of_kept = [Use(f"{p}{x}_kept", kept_row) for x in STATE]
    state = [*[found[x] for x in STATE], *of_kept, *[totals[x] for x in STATE]]
    steps: list[Step] = [Clear(totals[x]) for x in summed]
    steps += [Loop("zero", 1, (*first, *ends)), again, _by_kept(op, body, [Run(2, tuple(state))])]
    steps += [Copy(totals[x], Use(f"{p}{x}")) for x in wrt if x in totals]
    return Plan(op.inputs, op.outputs, steps, temporaries), pieces


def _sum_of(shapes: Sequence[Shape]) -> Piece:
    """A kernel that adds so many arrays to as many others."""
    count = len(shapes)

    def add(*terms: Any) -> dict[str, Any]:
        pairs = zip(terms[:count], terms[count:], strict=True)
        return {f"s{k}": x + y for k, (x, y) in enumerate(pairs)}

    inputs = {f"{x}{k}": shape for x in "xy" for k, shape in enumerate(shapes)}
    program = lambda: Program(trace(add, inputs))
    return lambda dtype: compile_program(program, f"sum {[*shapes]}", dtype)
