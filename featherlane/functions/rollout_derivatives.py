"""Derivatives of rollouts as plans: those of a step, by the plain entries of all inputs, one after
another in one call. Forwards the states are computed again beside the directions; backwards all
states are computed again first. A feedback law has derivatives of its own, around those of a step.
On the ground those of a step are taken at its solution, which does not depend on the impulses at
which it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from featherlane.functions.operations import ADJOINTS, Operation
from featherlane.functions.steps import control_law, one_step
from featherlane.program.array import trace
from featherlane.program.plan import (
    ArrayRow,
    Clear,
    Copy,
    Every,
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
OF_CONTACTS = ("contact_force", "residual")  # results of each step on the ground
START = "impulse"  # of contacts, at which the solution of a step begins


def derivative_plan(op: Operation) -> Planned:
    """Returns the plan of the first derivative of a rollout, and what its runs call."""
    return (_Backwards if op.steps[0].mode == ADJOINTS else _Forwards)(op).planned()


class _Differentiated:
    """A derivative of a rollout, forwards or backwards: the step and the feedback law that it
    differentiates, and the pieces that its runs call.
    """

    def __init__(self, op: Operation) -> None:
        self.op, self.p, self.moving = op, op.prefix, op.steps[0].wrt
        self.policy, self.every = op.variant.policy, op.variant.every
        self.step = op._replace(variant=one_step(op.variant, "step"), steps=())
        self.law = op._replace(variant=control_law(op.variant), steps=()) if self.policy else None
        self.memory = self.policy.memory_names if self.policy else ()
        self.sensors = [*op.variant.sensors.shapes] if op.variant.sensors else []
        self.read = tuple(x for x, _ in self.policy.sensors) if self.policy else ()
        self.start = (START,) if op.variant.ground is not None else ()
        self.shapes = {**self.step.inputs, **op.inputs}
        self.rows = (*BY_STEP, *(dict(self.policy.references) if self.policy else ()))
        self.pieces: dict[Operation | Sum, int] = {}
        self.temporaries: dict[str, Shape] = {}

    def temporary(self, name: str, shape: Shape) -> Use:
        """Returns a temporary, whose name has a space, so that no array of the user has it."""
        self.temporaries[name] = shape
        return Use(name)

    def wrt(self, piece: Operation, *first: str) -> list[str]:
        """Returns the inputs by which a piece is differentiated: some first, then those of the
        user's that it reads.
        """
        more = [x for x in self.moving if x in piece.inputs and x not in (*first, START)]
        return [*first, *more]

    def results(self, when: str) -> dict[str, Use]:
        """Returns temporaries for results of a step that the next one does not read."""
        carried = {f"{x}_next" for x in (*STATE, *self.start, *self.read)}
        names = [x for x in self.step.outputs if x not in carried]
        return {x: self.temporary(f"{x} {when}", self.step.outputs[x]) for x in names}

    def run(self, piece: Operation | Sum, arrays: dict[str, Use], row: ArrayRow) -> KernelRun:
        """Returns a run of an operation, on the arrays of its inputs and outputs but for those of
        `arrays`.
        """
        assert isinstance(piece, Operation)
        arrays = {**{name: Use(name, row) for name in self.rows}, **arrays}
        uses = tuple(arrays.get(x, Use(x)) for x in [*piece.inputs, *piece.outputs])
        return KernelRun(self.number(piece), uses)

    def add(self, terms: Sequence[Use], more: Sequence[Use], to: Sequence[Use]) -> KernelRun:
        """Returns a run that adds arrays to as many others, of which none is a result."""
        shapes = tuple(self.temporaries[use.array] for use in to)
        return KernelRun(self.number(Sum(shapes)), (*terms, *more, *to))

    def number(self, piece: Operation | Sum) -> int:
        """Returns the number of a piece."""
        return self.pieces.setdefault(piece, len(self.pieces))

    def by_kept(
        self,
        body: Sequence[PlanStep],
        kept: Sequence[PlanStep],
        before: Sequence[PlanStep] = (),
    ) -> Loop:
        """Returns a loop over the steps, number "n", and before and after each stretch from one
        state that is kept to the next, number "m".
        """
        inner = Loop("i", self.every, tuple(body), total="n", outer="m")
        return Loop("m", self.op.variant.steps // self.every, (*before, inner, *kept))

    def held(self, row: ArrayRow, body: Sequence[PlanStep]) -> list[PlanStep]:
        """Returns what happens where the law is evaluated, before the step of a row."""
        assert self.policy is not None
        hold = self.policy.hold
        return [*body] if hold == 1 else [Every(row, hold, tuple(body))]

    def plan(self, steps: Sequence[PlanStep]) -> Planned:
        """Returns the plan of these steps."""
        plan = Plan(self.op.inputs, self.op.outputs, steps, self.temporaries)
        return plan, [*self.pieces]


class _Forwards(_Differentiated):
    """The state, and the memory of a law, beside their directions, step by step."""

    def planned(self) -> Planned:
        """Returns the plan."""
        n = ArrayRow("n")
        kept = [f"{self.p}{x}" for x in STATE]
        both = lambda names: [*names, *(f"{self.p}{x}" for x in names)]
        states, memory = both((*STATE, *self.start, *self.read)), both(self.memory)
        self.now, self.then = dict[str, Use](), self._results(n)
        for x in [*states, *memory]:
            shape = self.shapes[x.removeprefix(self.p)]
            self.now[x] = self.temporary(f"{x} now", shape)
            self.then[f"{x}_next"] = self.temporary(f"{x} then", shape)
        begin = [
            Copy(Use(x), use) if x in self.op.inputs else Clear(use) for x, use in self.now.items()
        ]
        evaluated = self._law(memory, n) if self.law else []
        forces = ("tau",) if self.law else ()
        along = self.step.tangents(self.wrt(self.step, *STATE, *forces))
        arrays = {**{f"{self.p}{x}": Use(f"{self.p}{x}", n) for x in BY_STEP}, **self.now}
        arrays |= {**self.then, **self._controls()}
        solved = {x: self.then[f"{x}_next"] for x in self.start}
        body = [*evaluated, self.run(self.step, arrays, n)]
        body += [self.run(along, {**arrays, **solved}, n), *self._renewed(states)]
        keep = lambda row: [Copy(self.now[x], Use(f"{x}_kept", row)) for x in kept]
        sensed = [f"{self.p}{x}" for x in self.sensors]
        read = [Copy(self.then[f"{x}_next"], Use(f"{x}_kept", ArrayRow("m"))) for x in sensed]
        loop = self.by_kept(body, [*keep(ArrayRow("m", 1, 1)), *read])
        ends = [f"{self.p}{x}" for x in (*self.memory, *self.start)]
        end = [Copy(self.now[x], Use(f"{x}_end")) for x in ends]
        if self.law:
            begin.append(Clear(Use("count now")))
        return self.plan([*begin, Loop("zero", 1, tuple(keep(FIRST))), loop, *end])

    def _results(self, n: ArrayRow) -> dict[str, Use]:
        """Returns the arrays of what a step gives besides its state, and of its changes."""
        values = self.results("then")
        rows = {x: Use(f"{self.p}{x}", n) for x in OF_CONTACTS if x in values}
        shapes = {x: self.step.outputs[x] for x in values if x not in rows}
        changes = {x: self.temporary(f"{self.p}{x} then", shape) for x, shape in shapes.items()}
        return values | {f"{self.p}{x}": use for x, use in (rows | changes).items()}

    def _renewed(self, names: Sequence[str]) -> list[PlanStep]:
        return [Copy(self.then[f"{x}_next"], self.now[x]) for x in names]

    def _controls(self) -> dict[str, Use]:
        """Returns the arrays of the controls that a law computed, and their direction."""
        if self.law is None:
            return {}
        shape = self.law.outputs["controls"]
        names = ("tau", f"{self.p}tau")
        return {x: self.temporary(f"{x} held", shape) for x in names}

    def _law(self, memory: Sequence[str], n: ArrayRow) -> list[PlanStep]:
        """Returns the evaluation of the law and of its direction, and the row of the latter."""
        assert self.law is not None
        along = self.law.tangents(self.wrt(self.law, *STATE, *self.memory, *self.read))
        controls, count = self._controls(), self.temporary("count now", ())
        arrays = {f"{self.p}{x}": Use(f"{self.p}{x}", n) for x in self.rows}
        arrays |= {**self.now, **self.then, "count": count}
        arrays |= {"count_next": self.temporary("count then", ()), "controls": controls["tau"]}
        arrays[f"{self.p}count_next"] = self.temporary(f"{self.p}count then", ())
        arrays[f"{self.p}controls"] = direction = controls[f"{self.p}tau"]
        body = [self.run(self.law, arrays, n), self.run(along, arrays, n)]
        after = [*self._renewed(memory), Copy(arrays["count_next"], count)]
        row = Copy(direction, Use(f"{self.p}controls", n))
        return [*self.held(n, [*body, *after]), row]


class _Backwards(_Differentiated):
    """All states again; then, from the last step to the first one, the gradients by the state
    before a step from those by the state after it. Gradients by inputs that all steps share add up.

    path: the states, the memory of a law, impulses of contacts and sensors that a law reads, in
    rows; total: the gradients of all later steps; before: those of one step; more: sums, until they
    are copied.
    """

    def planned(self) -> Planned:
        """Returns the plan."""
        self.last = self.op.variant.steps
        states = {x: self.op.inputs[x] for x in (*STATE, *self.memory, *self.read)}
        shared = [x for x in self.moving if x not in self.rows and x not in states]
        sensed = {x: self.step.outputs[f"{x}_next"] for x in self.sensors}
        shapes = {**states, **{x: self.op.inputs[x] for x in shared}, **sensed}
        paths = {**states, **{x: self.shapes[x] for x in self.start}}
        self.path = {x: self._path(x, shape) for x, shape in paths.items()}
        if self.law:
            shapes["tau"] = self.law.outputs["controls"]
            self.path |= {"tau": self._path("tau", shapes["tau"]), "count": self._path("count", ())}
        self.total, self.before, self.more = (
            {x: self.temporary(f"{x} {which}", shape) for x, shape in shapes.items()}
            for which in ("total", "before", "more")
        )
        self.end = {x: self.temporary(f"{x} end", self.shapes[x]) for x in self.start}
        begin: list[PlanStep] = [Clear(self.total[x]) for x in (*shared, *self.sensors)]
        begin += self._zeros() if self.law else []
        row = ArrayRow("n", -1, self.last - 1)
        loop = self.by_kept(self._step(row) + self._law(row), [self._kept()], self._sensed())
        end = [Copy(self.total[x], Use(f"{self.p}{x}")) for x in self.moving if x in self.total]
        first = Loop("zero", 1, tuple(self._ends()))
        return self.plan([*begin, first, self._again(), loop, *end])

    def _path(self, name: str, shape: Shape) -> Use:
        """Returns a temporary with a row for each state, and those that a law is ahead."""
        rows = self.last + (self.policy.hold if self.policy else 1)
        return self.temporary(f"{name} path", (rows, *shape))

    def _rows(self, row: ArrayRow) -> dict[str, Use]:
        """Returns the row of each path."""
        return {x: Use(use.array, row) for x, use in self.path.items()}

    def _zeros(self) -> list[PlanStep]:
        """Returns the steps that clear the sum of gradients by controls that hold, the count of
        steps at the first one, and the gradients by what the law has none of.
        """
        assert self.policy is not None
        zeros = {"count": (), **{x: y for x, y in self.policy.references if x in self.moving}}
        self.zero = {x: self.temporary(f"{x} zero", shape) for x, shape in zeros.items()}
        return [*map(Clear, (self.total["tau"], self.path["count"], *self.zero.values()))]

    def _ends(self) -> list[PlanStep]:
        """Returns the copies of the first state, and of the gradients by the last one."""
        last = ArrayRow("zero", 1, self.last // self.every)
        rows = self._rows(FIRST)
        copies: list[PlanStep] = [
            Copy(Use(x), use) if x in self.op.inputs else Clear(use)
            for x, use in rows.items()
            if x not in ("tau", "count")
        ]
        copies += [Copy(Use(f"{self.p}{x}_kept", last), self.total[x]) for x in STATE]
        copies += [Copy(Use(f"{self.p}{x}_end"), use) for x, use in self.end.items()]
        return copies + [Copy(Use(f"{self.p}{x}_end"), self.total[x]) for x in self.memory]

    def _sensed(self) -> list[PlanStep]:
        """Returns the sums of the gradients by sensors where they are kept, and by those that the
        law reads at the next step.
        """
        if not self.sensors:
            return []
        row = ArrayRow("m", -1, self.last // self.every - 1)
        total, more = ([each[x] for x in self.sensors] for each in (self.total, self.more))
        kept = [Use(f"{self.p}{x}_kept", row) for x in self.sensors]
        return [self.add(total, kept, more), *map(Copy, more, total)]

    def _kept(self) -> KernelRun:
        """Returns the sum of the gradients by a state, and by the same state where it is kept."""
        row = ArrayRow("m", -1, self.last // self.every - 1)
        kept = [Use(f"{self.p}{x}_kept", row) for x in STATE]
        return self.add([self.before[x] for x in STATE], kept, [self.total[x] for x in STATE])

    def _again(self) -> Loop:
        """Returns a loop that leaves all states in the rows of paths, which have the first ones."""
        row, body = ArrayRow("k"), list[PlanStep]()
        rows, following = self._rows(row), self._rows(ArrayRow("k", 1, 1))
        if self.law and self.policy:
            ahead = self._rows(ArrayRow("k", 1, self.policy.hold))
            held = self.temporary("controls held", self.law.outputs["controls"])
            arrays = {**rows, **{f"{x}_next": ahead[x] for x in (*self.memory, "count")}}
            run = self.run(self.law, {**arrays, "controls": held}, row)
            body += [*self.held(row, [run]), Copy(held, rows["tau"])]
        carried = (*STATE, *self.start, *self.read)
        states = {**rows, **self.results("again"), **{f"{x}_next": following[x] for x in carried}}
        return Loop("k", self.last, (*body, self.run(self.step, states, row)))

    def _step(self, row: ArrayRow) -> list[PlanStep]:
        """Returns the gradients of a step, from those of the state after it."""
        forces = ("tau",) if self.law else ()
        wrt = self.wrt(self.step, *STATE, *forces)
        arrays = self._rows(row) | {f"{self.p}{x}": Use(f"{self.p}{x}", row) for x in self.rows}
        arrays |= {f"{self.p}{x}": self.before[x] for x in wrt if x in self.before}
        weights = {x: self.total[x] for x in (*STATE, *self.sensors)} | self.end
        arrays |= {f"{self.p}{x}_next": use for x, use in weights.items()}
        arrays |= {f"{self.p}{x}": Use(f"{self.p}{x}", row) for x in OF_CONTACTS}
        solved = self._rows(row._replace(offset=row.offset + 1))
        arrays |= {x: solved[x] for x in self.start}
        run = self.run(self.step.adjoints(wrt), arrays, row)
        after: list[PlanStep] = [Copy(self.before[x], self.total[x]) for x in STATE]
        after += [Clear(x) for x in (*self.end.values(), *(self.total[x] for x in self.sensors))]
        return [run, *after, *self._summed([x for x in wrt[len(STATE) :] if x in self.before])]

    def _summed(self, names: Sequence[str]) -> list[PlanStep]:
        """Returns the steps that add the gradients of a step to those of all later ones."""
        if not names:
            return []
        total, before, more = (
            [each[x] for x in names] for each in (self.total, self.before, self.more)
        )
        return [self.add(total, before, more), *[Copy(*x) for x in zip(more, total, strict=True)]]

    def _law(self, row: ArrayRow) -> list[PlanStep]:
        """Returns the gradients of the law, from those of the controls of all steps that it gave,
        and of its new memory.
        """
        if self.law is None:
            return []
        p, total, more = self.p, self.total, self.more
        of_controls: list[PlanStep] = [
            self.add([total["tau"]], [Use(f"{p}controls", row)], [more["tau"]]),
            Copy(more["tau"], total["tau"]),
        ]
        clear = [Copy(use, Use(f"{p}{x}", row)) for x, use in self.zero.items() if x != "count"]
        return [*of_controls, *clear, *self.held(row, self._evaluation(row))]

    def _evaluation(self, row: ArrayRow) -> list[PlanStep]:
        """Returns the gradients of an evaluation of the law, added to those of the step."""
        assert self.law is not None
        p, total, before, more = self.p, self.total, self.before, self.more
        carried = (*self.memory, *self.read)
        wrt = self.wrt(self.law, *STATE, *carried)
        arrays = self._rows(row) | {f"{p}{x}": Use(f"{p}{x}", row) for x in self.rows}
        arrays |= {f"{p}{x}": before[x] for x in wrt if x in before}
        arrays |= {f"{p}{x}": more[x] for x in STATE}
        arrays |= {f"{p}{x}_next": total[x] for x in self.memory}
        arrays |= {f"{p}controls": total["tau"], f"{p}count_next": self.zero["count"]}
        state = [[each[x] for x in STATE] for each in (before, more, total)]
        shared = [x for x in wrt if x in before and x not in (*STATE, *carried)]
        return [
            self.run(self.law.adjoints(wrt), arrays, row),
            self.add(*state),
            *[Copy(total[x], before[x]) for x in STATE],
            *[Copy(before[x], total[x]) for x in carried],
            *self._summed(shared),
            Clear(total["tau"]),
        ]
