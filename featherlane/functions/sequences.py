"""Steps of large robots, and rollouts, as plans: kernels one after another in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.functions.ground_inputs import SOLUTION
from featherlane.functions.matrix_sensitivities import LANES, MatrixSensitivities
from featherlane.functions.steps import (
    COMPOSED,
    Call,
    calls_of,
    control_law,
    one_step,
)
from featherlane.functions.table import DEFAULT_INTEGRATOR, Variant, shapes
from featherlane.functions.variants import (
    input_names,
    input_shapes,
    output_shapes,
    output_sizes,
)
from featherlane.program.plan import (
    ArrayRow,
    Clear,
    Copy,
    CopyRows,
    Every,
    KernelRun,
    Loop,
    Matrices,
    MatrixBlock,
    MatrixWork,
    Multiply,
    Plan,
    PlanStep,
    Scale,
    Shape,
    Use,
)
from featherlane.robot.contact_law import Coulomb
from featherlane.robot.model import Robot
from featherlane.robot.tree_of import tree_of

# Products with the derivatives of a step, and the functions that compute them from A and B
PRODUCTS = {"step_jvp": "slopes_along", "step_vjp": "slopes_backwards"}
DERIVED = "_and_derivatives"  # the ending of the names of functions with derivatives
FLAT = 12_000  # operations of a step as one piece of code: a second of compilation
# Operations of forward dynamics for each body, and of its derivatives for each pair of joints on a
# path: what is known without tracing
FOR_A_BODY, FOR_A_PAIR = 150, 180
SWEEPS = 32_000  # operations of sweeps as one piece of code: arrays are loaded once for it
# Operations that eliminate a block of rows for each pair of freedoms, and those of all blocks that
# are one piece of code with the rest
ELIMINATION, IN_ONE_PIECE = 27, 60_000
IN_TILES = 12  # freedoms up to which sensitivities are code for a tile of states


def is_planned(model: Robot, variant: Variant) -> bool:
    """Returns whether a function is a plan of kernels: rollouts, and steps that are too long for
    one.
    """
    if variant.steps:
        return True
    if variant.name in PRODUCTS:
        return _is_long(model, variant)
    if variant.name not in COMPOSED:
        return False
    if has_many_contacts(model, variant) or has_many_rows(model, variant):
        return True
    tree = tree_of(model)
    each = FOR_A_BODY * tree.nbodies
    if variant.name.startswith("linearize"):
        each = FOR_A_PAIR * sum(map(len, tree.above))
    held = 1 if variant.constraints is None else 2  # constraints take as much again
    method = INTEGRATORS[variant.integrator or DEFAULT_INTEGRATOR]
    return method.stages * each * held > FLAT


def has_many_contacts(model: Robot, variant: Variant) -> bool:
    """Returns whether the sweeps of a step over its contacts are a loop."""
    return variant.name == "step" and variant.constraints is None and _is_long(model, variant)


def _is_long(model: Robot, variant: Variant) -> bool:
    """Returns whether the sweeps of a step would be long as one piece of code."""
    ground = variant.ground
    if ground is None or not isinstance(ground.law, Coulomb):
        return False
    return ground.layout(model).is_long(ground.law.sweeps)


def has_many_rows(model: Robot, variant: Variant) -> bool:
    """Returns whether the rows of a step are eliminated in a loop where it is differentiated."""
    ground = variant.ground
    if not variant.name.startswith("linearize") or ground is None or ground.is_soft:
        return False
    if _is_long(model, variant):
        return True
    (blocks,) = shapes(model, {"": ("blocks",)}, variant)[""]
    return ELIMINATION * blocks * model.nv**2 > IN_ONE_PIECE


def in_tiles(model: Robot) -> bool:
    """Returns whether sensitivities are code for a tile of states, not work on matrices: of small
    robots without joints whose motions do not commute, which make that code long.
    """
    lie_groups = any(model.types[i].commutator for i in model.independent)
    return model.nv <= IN_TILES and not lie_groups


Planned = tuple[Plan, list[Variant]]


def planned(model: Robot, variant: Variant) -> Planned:
    """Returns the plan of a function that `is_planned`, and the functions that its runs call."""
    plans = {"rollout": _rollout, "rollout_with": _rollout, "rollout_gradient": _rollout_gradient}
    plans |= dict.fromkeys(PRODUCTS, _product)
    return plans.get(variant.name, _composed)(model, variant)


def _product(model: Robot, variant: Variant) -> Planned:
    """Returns the plan of a product with the derivatives of a step, whose matrices come first."""
    linear, name = variant._replace(name="linearize_step"), PRODUCTS[variant.name]
    product = Variant(name, actuation=variant.actuation)
    runs = [KernelRun(k, _uses(x, {})) for k, x in enumerate((linear, product))]
    inputs, outputs = input_shapes(model, variant), output_shapes(model, variant)
    return Plan(inputs, outputs, runs, output_shapes(model, linear)), [linear, product]


def _composed(model: Robot, variant: Variant) -> Planned:
    """Returns the plan of a step: a kernel for each function that it calls, or work on matrices."""
    inputs, outputs = input_shapes(model, variant), output_shapes(model, variant)
    variants: dict[Variant, int] = {}
    steps, temporaries, scratch = list[PlanStep](), dict[str, Shape](), dict[str, Shape]()
    kernel = lambda function: variants.setdefault(function, len(variants))
    for call in calls_of(model, variant):
        if call.variant.name == "step_derivatives" and not in_tiles(model):
            matrices = MatrixSensitivities(model, call.variant, outputs["B"][1], kernel)
            runs, work = matrices.make()
            steps += [*runs, Matrices(tuple(work))]
            temporaries |= matrices.temporaries
            scratch |= matrices.scratch
            continue
        sizes = output_shapes(model, call.variant)
        new = {array: sizes[name] for name, array in call.outputs.items() if array not in outputs}
        temporaries |= new
        if "contact_force" in call.outputs and (
            has_many_contacts(model, variant) or has_many_rows(model, variant)
        ):
            of_contacts, more, matrices_of = _on_ground(model, call, kernel)
            steps += of_contacts
            temporaries |= more
            scratch |= matrices_of
            continue
        arrays = [*call.inputs.values(), *call.outputs.values()]
        steps.append(KernelRun(kernel(call.variant), tuple(map(Use, arrays))))
    return Plan(inputs, outputs, steps, temporaries, scratch), list(variants)


RunsOnGround = tuple[list[PlanStep], dict[str, Shape], dict[str, Shape]]


def _on_ground(model: Robot, call: Call, kernel: Callable[[Variant], int]) -> RunsOnGround:
    """Returns the runs of a step with rigid contacts, with its derivatives if the call has them,
    and their temporary arrays and scratch matrices.
    """
    if not call.variant.name.endswith(DERIVED):
        return *_solved_step(model, call, kernel), {}
    ground, name = call.variant.ground, call.variant.name.removesuffix(DERIVED)
    ending = "_solutions" if ground and ground.rebounds else ""
    solved = call.variant._replace(name=f"{name}{ending}")
    outputs = {x: call.outputs.get(x, x) for x in output_sizes(solved)}
    step = Call(solved, call.inputs, outputs)
    runs, temporaries = _solved_step(model, step, kernel)
    differentiate = _slopes_of_solutions if ending else _eliminated_rows
    of_rows, more, scratch = differentiate(model, call, kernel)
    return [*runs, *of_rows], temporaries | more, scratch


def _solved_step(
    model: Robot, step: Call, kernel: Callable[[Variant], int]
) -> tuple[list[PlanStep], dict[str, Shape]]:
    """Returns the runs of a step with rigid contacts, and their temporary arrays."""
    if step.variant.constraints is None:
        return _swept_step(model, step, kernel)
    arrays = [*step.inputs.values(), *step.outputs.values()]
    return [KernelRun(kernel(step.variant), tuple(map(Use, arrays)))], {}


def _eliminated_rows(model: Robot, call: Call, kernel: Callable[[Variant], int]) -> RunsOnGround:
    """Returns the runs of the derivatives of a step with rigid contacts, and their temporary arrays
    and scratch matrices.
    """
    rows = call.variant._replace(name=call.variant.name.replace("step" + DERIVED, "rows"))
    runs, work, temporaries, scratch = _answer(model, rows, _known(call), kernel)
    n = model.nv
    first = {"da_dtau": 0, "da_dq": n, "da_dv": 2 * n}  # columns of the answer
    copies = [CopyRows(MatrixBlock(ANSWER, k, 3 * n), call.outputs[x]) for x, k in first.items()]
    return [*runs, Matrices((*work, *copies))], temporaries, scratch


def _slopes_of_solutions(
    model: Robot, call: Call, kernel: Callable[[Variant], int]
) -> RunsOnGround:
    """Returns the runs of the derivatives of a step whose contacts rebound, which are those of both
    solutions from which it is, and their temporary arrays and scratch matrices.
    """
    name, ground = call.variant.name, call.variant.ground
    assert ground is not None
    rows = call.variant._replace(
        name=name.replace("step" + DERIVED, "rows"), ground=ground.with_restitution()
    )
    slopes = call.variant._replace(name=name.replace("step" + DERIVED, "slopes"))
    row = ArrayRow("solution")
    known = _known(call) | {x: Use(each, row) for x, each in SOLUTION.items()}
    runs, work, temporaries, scratch = _answer(model, rows, known, kernel)
    shapes = input_shapes(model, slopes)
    temporaries |= {x: shapes[x] for x in (*SOLUTION.values(), "answers")}
    body = (*runs, Matrices(tuple(work)), Copy(Use(ANSWER), Use("answers", row)))
    last = KernelRun(kernel(slopes), _uses(slopes, _known(call)))
    return [Loop("solution", shapes["answers"][0], body), last], temporaries, scratch


ANSWER = "answer"
Answer = tuple[list[PlanStep], list[MatrixWork], dict[str, Shape], dict[str, Shape]]


def _answer(
    model: Robot, rows: Variant, arrays: dict[str, Use], kernel: Callable[[Variant], int]
) -> Answer:
    """Returns the runs that eliminate the rows of a solution block by block, the work on matrices
    behind them that leaves its derivatives in the answer, temporary arrays and scratch matrices.
    """
    eliminate, then = Variant("eliminate_rows"), "next_answer"
    shapes = output_shapes(model, rows)
    runs: list[PlanStep] = [KernelRun(kernel(rows), _uses(rows, arrays))]
    of_block = {x: Use(x, ArrayRow("number")) for x in ("rows", "changes", "laws")}
    run = KernelRun(kernel(eliminate), _uses(eliminate, of_block))
    runs.append(Loop("number", shapes["rows"][0], (run, Copy(Use(then), Use(ANSWER)))))
    work, scratch = _joined_answer(model.nv, ANSWER)
    return runs, work, {**shapes, then: shapes[ANSWER]}, scratch


def _joined_answer(n: int, answer: str) -> tuple[list[MatrixWork], dict[str, Shape]]:
    """Returns the work that adds P pull to V in [P, V], n x 3 n, and its scratch matrices, whose
    rows are whole vectors.
    """
    columns = -(-2 * n // LANES) * LANES
    right, product = (MatrixBlock(x, 0, columns) for x in ("padded pull", "P pull"))
    pull, P, V = MatrixBlock("pull", 0, 2 * n), *(MatrixBlock(answer, k, 3 * n) for k in (0, n))
    work: list[MatrixWork] = [Scale(x, None, n, columns) for x in (right, product)]
    work += [
        Scale(right, pull, n, 2 * n, more=True),
        Multiply(product, P, right, n, n, columns),
        Scale(V, product, n, 2 * n, more=True),
    ]
    return work, {x.array: (n, columns) for x in (right, product)}


def _known(call: Call) -> dict[str, Use]:
    """Returns the arrays of a call by the names of its inputs and outputs."""
    return {x: Use(array) for x, array in (call.inputs | call.outputs).items()}


def _swept_step(
    model: Robot, call: Call, kernel: Callable[[Variant], int]
) -> tuple[list[PlanStep], dict[str, Shape]]:
    """Returns the runs of a step with many contacts, in which some sweeps are repeated, and their
    temporary arrays.
    """
    ground = call.variant.ground
    assert ground is not None
    assert isinstance(ground.law, Coulomb)
    sweeps = _sweeps_of_a_run(ground.law.sweeps, ground.layout(model).operations)
    some = ground.without_arrays()._replace(law=replace(ground.law, sweeps=sweeps))
    name = call.variant.name
    ending = "_solutions" if name.endswith("_solutions") else ""
    system = call.variant._replace(name=name.removesuffix(ending).replace("step", "system"))
    sweep, end = (Variant(f"ground_{x}", ground=some) for x in ("sweeps", f"end{ending}"))
    then = {"p_next": "p then", "x_next": "x then"}
    shapes = output_shapes(model, system) | {
        to: output_shapes(model, sweep)[name] for name, to in then.items()
    }
    of_system, outputs = _uses(system, {}), {x: Use(to) for x, to in call.outputs.items()}
    back = tuple(Copy(Use(to), Use(name[0])) for name, to in then.items())
    uses = {**{x: Use(to) for x, to in then.items()}, "residual": outputs["residual"]}
    swept = KernelRun(kernel(sweep), _uses(sweep, uses))
    runs: list[PlanStep] = [
        KernelRun(kernel(system), tuple(Use(call.inputs.get(u.array, u.array)) for u in of_system)),
        Loop("sweep", ground.law.sweeps // sweeps, (swept, *back)),
        KernelRun(kernel(end), _uses(end, outputs)),
    ]
    return runs, shapes


def _sweeps_of_a_run(sweeps: int, operations: int) -> int:
    """Returns how many sweeps are one piece of code: a divisor of all of them."""
    most = max(SWEEPS // operations, 1)
    return max(n for n in range(1, sweeps + 1) if sweeps % n == 0 and n <= most)


def _uses(variant: Variant, arrays: dict[str, Use], row: ArrayRow | None = None) -> tuple[Use, ...]:
    """Returns the arrays of a call, by the names of its inputs and outputs but for those of
    `arrays`. row: of wrenches and of masks of constraints.
    """
    if variant.wrenches:
        arrays = {"f_ext": Use("f_ext", row), **arrays}
    if variant.constraints is not None:
        arrays = {"active": Use("active", row), **arrays}
    names = [*input_names(variant), *output_sizes(variant)]
    return tuple(arrays.get(name, Use(name)) for name in names)


STATE = ("q", "v")


class _Share(NamedTuple):
    """The part of a rollout's plan that the states have, or the feedback law, contacts or sensors.
    arrays: those of a step by its inputs and outputs; before, after: in the loop over steps, around
    each step; kept: after each state that is kept, if not all are.
    """

    arrays: dict[str, Use]
    temporaries: Mapping[str, Shape] = MappingProxyType({})
    begin: tuple[PlanStep, ...] = ()
    before: tuple[PlanStep, ...] = ()
    after: tuple[PlanStep, ...] = ()
    kept: tuple[PlanStep, ...] = ()
    end: tuple[PlanStep, ...] = ()


def _rollout(model: Robot, variant: Variant) -> Planned:
    """Plans a rollout: a loop over the steps, of which some begin with the feedback law."""
    step, every = one_step(variant, "step"), variant.every
    if variant.policy is not None and _is_in_step(model, variant):
        step = step._replace(name="policy_step", policy=variant.policy)
    row = ArrayRow("k" if every == 1 else "n")
    law = _of_law(model, variant, row)
    shares = (
        law,
        _of_contacts(model, variant, row),
        _of_sensors(model, variant),
        _of_states(model, variant),
    )
    joined = lambda part: [step for share in shares for step in getattr(share, part)]
    arrays, temporaries = {"tau": Use("tau", row)}, dict[str, Shape]()
    for share in shares:
        arrays |= share.arrays
        temporaries |= share.temporaries
    uses = _uses(step, arrays, row)
    body = (*joined("before"), KernelRun(0, uses), *joined("after"))
    if every == 1:
        loop = Loop("k", variant.steps, body)
    else:
        inner = Loop("i", every, body, total="n", outer="k")
        loop = Loop("k", variant.steps // every, (inner, *joined("kept")))
    steps = [*joined("begin"), loop, *joined("end")]
    shapes = input_shapes(model, variant), output_shapes(model, variant)
    plan = Plan(*shapes, steps, temporaries)
    return plan, [step, *([control_law(variant)] if law.before else [])]


def _of_states(model: Robot, variant: Variant) -> _Share:
    """Each step reads the row of the state before it and writes the row of the state after it; or,
    where only some states are kept, the steps between work on temporaries.
    """
    first = [Copy(Use(x), Use(f"{x}_kept", ArrayRow("zero"))) for x in STATE]
    begin: list[PlanStep] = [Loop("zero", 1, tuple(first))]
    if variant.every == 1:
        arrays = {x: Use(f"{x}_kept", ArrayRow("k")) for x in STATE}
        arrays |= {f"{x}_next": Use(f"{x}_kept", ArrayRow("k", 1, 1)) for x in STATE}
        return _Share(arrays, begin=tuple(begin))
    shapes = input_shapes(model, variant)
    temporaries = {f"{x}_{when}": shapes[x] for when in ("now", "then") for x in STATE}
    arrays = {x: Use(f"{x}_now") for x in STATE} | {f"{x}_next": Use(f"{x}_then") for x in STATE}
    begin += [Copy(Use(x), arrays[x]) for x in STATE]
    after = [Copy(arrays[f"{x}_next"], arrays[x]) for x in STATE]
    kept = [Copy(arrays[x], Use(f"{x}_kept", ArrayRow("k", 1, 1))) for x in STATE]
    return _Share(arrays, temporaries, tuple(begin), after=tuple(after), kept=tuple(kept))


def _is_in_step(model: Robot, variant: Variant) -> bool:
    """Returns whether the feedback law of a rollout is part of the code of each step."""
    assert variant.policy is not None
    return variant.policy.hold == 1 and not has_many_contacts(model, one_step(variant, "step"))


def _of_law(model: Robot, variant: Variant, row: ArrayRow) -> _Share:
    """The feedback law is part of each step; or, where its controls hold over several steps, has a
    kernel of its own, which runs before some of them.
    """
    policy = variant.policy
    if policy is None:
        return _Share({})
    law, memory, controls = control_law(variant), policy.memory_names, Use("controls", row)
    shapes = output_shapes(model, law)
    renewed = {x: (Use(f"{x} now"), Use(f"{x} then")) for x in ("count", *memory)}
    arrays = {x: Use(x, row) for x, _ in policy.references} | {"controls": controls}
    arrays |= {x: Use(f"{x} now") for x, _ in policy.sensors}
    for x, (now, then) in renewed.items():
        arrays |= {x: now, f"{x}_next": then}
    temporaries = {use.array: shapes[f"{x}_next"] for x, uses in renewed.items() for use in uses}
    begin: list[PlanStep] = [Clear(renewed["count"][0])]
    begin += [Copy(Use(x), renewed[x][0]) for x in memory]
    renew = [Copy(then, now) for now, then in renewed.values()]
    end = tuple(Copy(renewed[x][0], Use(f"{x}_end")) for x in memory)
    if _is_in_step(model, variant):
        return _Share(arrays, temporaries, tuple(begin), after=tuple(renew), end=end)
    held = Use("held controls")
    temporaries[held.array] = shapes["controls"]
    arrays |= _of_states(model, variant).arrays | {"controls": held}
    evaluation = Every(row, policy.hold, (KernelRun(1, _uses(law, arrays)), *renew))
    before = (evaluation, Copy(held, controls))
    return _Share({"tau": controls}, temporaries, tuple(begin), before, end=end)


def _of_contacts(model: Robot, variant: Variant, row: ArrayRow) -> _Share:
    """The sweeps of each step begin with the impulses of the step before it."""
    if variant.ground is None:
        return _Share({})
    now, then = Use("impulse now"), Use("impulse then")
    arrays = {name: Use(name, row) for name in ("contact_force", "residual")}
    arrays |= {"impulse": now, "impulse_next": then}
    shape = output_shapes(model, one_step(variant, "step"))["impulse_next"]
    temporaries = {use.array: shape for use in (now, then)}
    warm = "impulse" in variant.ground.parameters
    begin = Copy(Use("impulse"), now) if warm else Clear(now)
    end = (Copy(now, Use("impulse_end")),)
    return _Share(arrays, temporaries, (begin,), after=(Copy(then, now),), end=end)


def _of_sensors(model: Robot, variant: Variant) -> _Share:
    """Sensors of a step are rows, or temporaries where only some are kept; those that the feedback
    law reads are copied for the next step.
    """
    if variant.sensors is None:
        return _Share({})
    shapes = output_shapes(model, one_step(variant, "step"))
    rows = {x: Use(f"{x}_kept", ArrayRow("k")) for x in variant.sensors.shapes}
    if variant.every == 1:
        results, temporaries = rows, dict[str, Shape]()
    else:
        results = {x: Use(f"{x} then") for x in rows}
        temporaries = {f"{x} then": shapes[f"{x}_next"] for x in rows}
    now = {x: Use(f"{x} now") for x, _ in (variant.policy.sensors if variant.policy else ())}
    return _Share(
        {f"{x}_next": use for x, use in results.items()},
        temporaries | {f"{x} now": shapes[f"{x}_next"] for x in now},
        begin=tuple(Copy(Use(x), use) for x, use in now.items()),
        after=tuple(Copy(results[x], use) for x, use in now.items()),
        kept=tuple(Copy(results[x], row) for x, row in rows.items() if variant.every > 1),
    )


def _rollout_gradient(model: Robot, variant: Variant) -> Planned:
    """Plans the gradient of a rollout, from the last step to the first one: gradients by the state
    after a step become those by the state before it, to which those of the trajectory are added.
    """
    step, last = one_step(variant, "step_vjp"), variant.steps
    backwards = ArrayRow("k", -1, last - 1)
    gradients = {name: Use(f"{name}_next") for name in ("gq", "gv")}
    arrays = {name: Use(name, backwards) for name in ("q", "v", "tau", "gtau")}
    before = {name: Use(f"{name}_before") for name in ("gq", "gv")}
    again = _solved_again(model, variant) if variant.ground else _Share({})
    run = KernelRun(0, _uses(step, {**arrays, **before, **again.arrays}, backwards))
    add = KernelRun(
        1,
        (
            *before.values(),
            *[Use(name, backwards) for name in ("gq", "gv")],
            *gradients.values(),
        ),
    )
    begin = Loop(
        "zero", 1, tuple(Copy(Use(x, ArrayRow("zero", 1, last)), gradients[x]) for x in before)
    )
    end = [Copy(gradients[name], Use(f"{name}0")) for name in before]
    inputs, outputs = input_shapes(model, variant), output_shapes(model, variant)
    temporaries = {use.array: (model.nv,) for use in (*before.values(), *gradients.values())}
    loop = Loop("k", last, (run, add))
    steps: list[PlanStep] = [*again.begin, begin, loop, *end]
    plan = Plan(inputs, outputs, steps, {**temporaries, **again.temporaries})
    pieces = [step, Variant("add_gradients")]
    return plan, [*pieces, *([one_step(variant, "step")] if again.begin else [])]


def _solved_again(model: Robot, variant: Variant) -> _Share:
    """All steps again, whose impulses stay in the rows of a path: each is where the solution of
    the step begins that is differentiated.
    """
    step, row, path = one_step(variant, "step"), ArrayRow("ahead"), "impulse path"
    shapes = output_shapes(model, step)
    temporaries = {f"{name} again": shape for name, shape in shapes.items()}
    del temporaries["impulse_next again"]
    temporaries[path] = (variant.steps + 1, *shapes["impulse_next"])
    arrays = {name: Use(f"{name} again") for name in shapes}
    arrays |= {"impulse": Use(path, row), "impulse_next": Use(path, ArrayRow("ahead", 1, 1))}
    arrays |= {name: Use(name, row) for name in ("q", "v", "tau")}
    assert variant.ground is not None
    first = Use(path, ArrayRow("start"))
    warm = "impulse" in variant.ground.parameters
    start: PlanStep = Copy(Use("impulse"), first) if warm else Clear(first)
    runs = (KernelRun(2, _uses(step, arrays, row)),)
    begin = (Loop("start", 1, (start,)), Loop("ahead", variant.steps, runs))
    following = Use(path, ArrayRow("k", -1, variant.steps))
    return _Share({"impulse": following}, temporaries, begin)
