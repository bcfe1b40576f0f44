"""Calls of every function with arrays of every layout beside guard pages, and with wrong arguments.

A seed is one call. So many seeds in turn share a robot and some functions of the table with random
options, since compiling takes longest. Results must have the bits of the interpreter and of
contiguous arrays; no other byte may change; a child process makes the calls, since a wrong access
is its end.
"""

import os
import random
import tempfile
import time
import warnings
from collections import Counter
from functools import lru_cache
from inspect import signature
from math import prod
from typing import Any, NamedTuple

import numpy as np

import featherlane as fl
from featherlane.algorithms.integrators import INTEGRATORS
from featherlane.backends import reference
from featherlane.functions.kernels import is_long
from featherlane.functions.sequences import is_planned
from featherlane.functions.table import REFERENCES, STEPS, TABLE, Variant
from featherlane.functions.tracing import dynamics_program
from featherlane.program.lower import lower
from featherlane.robot.joints import JOINT_TYPES
from featherlane.robot.parameters import PARAMETERS

from .memory import Arena, cut, extent, same, shapes_of_states, strides
from .workers import NOTHING, Death, Worker
from .wrong import broken, refusal_fault

CALLS = 400  # of a robot
FUNCTIONS = 8  # of a robot
PROCESSOR_S = 300  # of a call, with what it compiles
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 1e30, 1e308, 1e5, 3e9)


class Call(NamedTuple):
    """function: what is called; arrays: its inputs by name; options: its keywords besides.

    arenas: where the arrays are; values: the inputs, contiguous, in the dtype of the results.
    """

    function: Any
    arrays: dict
    options: dict
    arenas: list
    values: list


# Robots and functions


@lru_cache(1)
def robot(seed):
    """A random or a bundled robot; one of twenty is a long chain."""
    rng = random.Random(f"robot {seed}")
    chosen = rng.random()
    if chosen < 0.05:
        return fl.chain(rng.randrange(50, 70), seed=seed)
    if chosen < 0.2:
        return fl.load("double_pendulum", root=rng.choice(("fixed", "planar", "free")))
    if chosen < 0.25:
        return fl.load("iiwa14")
    while True:
        n = rng.choice((1, 2, 2, 3, 3, 4))
        made = fl.random_tree(
            n,
            rng.choice((1, 1.5, float("inf"))),
            rng.sample([*JOINT_TYPES], rng.randint(1, 3)),
            roots=rng.randint(1, n),
            mimic=rng.choice((0, 0, 0.5)),
            physics=rng.random() < 0.5,
            seed=rng.randrange(10**9),
        )
        if 0 < made.nv <= 8:  # a kernel of more takes seconds to compile
            return made


@lru_cache(1)
def variants(seed):
    """Some functions of the table with options, each with its dtype."""
    rng, model = random.Random(f"variants {seed}"), robot(seed)
    names = rng.sample([*TABLE], min(FUNCTIONS, len(TABLE)))
    return [(variant(rng, model, name), np.dtype(rng.choice(("f4", "f8")))) for name in names]


def variant(rng, model, name):
    """A function with random options that the model takes."""
    takes = TABLE[name].takes
    of = lambda option, values: rng.choice([*values]) if option in takes else None
    for most in (3, 2, 1, 0, 0, 0):
        frames = rng.sample([*model.frame_names], min(rng.randint(0, 2), len(model.frame_names)))
        made = Variant(
            name,
            of("f_ext", (None, "body", "world")),
            tuple(rng.sample([*PARAMETERS], rng.randint(0, most))),
            of("frame", model.frame_names),
            of("reference", REFERENCES),
            of("wrt", PARAMETERS),
            method=rng.choice((None, *TABLE[name].methods)) if most else None,
            integrator=of("integrator", INTEGRATORS),
        )
        if made.wrenches and name not in STEPS and rng.random() < 0.3:
            made = made._replace(at=tuple(sorted(frames)))
        if depends_on_states(model, made):
            made = made._replace(method="serial")
        try:
            model._function(made)
        except ValueError as error:  # parameters exclude each other, or a method the robot
            if fault := refusal_fault(error):
                raise RuntimeError(fault) from error
        else:
            return made
    raise RuntimeError(f"{name} of {model.name} is refused with all options: {made}")


def depends_on_states(model, made):
    """Whether the number of states chooses the method, and so the bits."""
    return made.name == "inverse_dynamics" and made.method is None and is_long(model, made)


@lru_cache(2 * FUNCTIONS)
def checked(seed, number):
    """A function that has the bits of the interpreter, its variant and dtype."""
    chosen, dtype = variants(seed)[number]
    model = robot(seed)
    function = model._function(chosen)
    # recorded steps and plans round in another order
    if function.kernel(dtype) is None or is_planned(model, chosen):
        return function, chosen, dtype
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=(3, *core)) for name, core in function.inputs.items()}
    values = {name: x.astype(dtype) for name, x in values.items()}
    program = lower(dynamics_program(model, chosen), "cpu", dtype)
    wanted = reference.evaluate(program, values, dtype)
    results = function(*values.values()), function(*(x[0] for x in values.values()))
    for found, kind in zip(results, ("batch", "state"), strict=True):
        found = found if isinstance(found, tuple) else (found,)
        for x, (name, y) in zip(found, wanted.items(), strict=True):
            if not same(x, y if kind == "batch" else y[0]):
                raise RuntimeError(f"{name} of a {kind} differs from the interpreter: {chosen}")
    return function, chosen, dtype


# Calls


def filled(rng, view):
    """Writes random numbers, among them special ones in some calls."""
    source = np.random.default_rng(rng.randrange(2**60))
    numbers = source.normal(size=view.shape) * (20 if view.dtype.kind in "iu" else 1)
    if rng.random() < 0.1:
        numbers = np.where(source.random(view.shape) < 0.1, rng.choice(SPECIAL), numbers)
    with np.errstate(all="ignore"):
        unsigned = np.abs(numbers) if view.dtype.kind == "u" else numbers
        view[...] = np.nan_to_num(unsigned) if view.dtype.kind in "iu" else unsigned


def stored_dtype(rng, dtype, first):
    """A dtype that inputs may have where results have another; the first decides that."""
    others = [dtype.newbyteorder()] * 2
    if not first:
        others += map(np.dtype, ("i8", "i4", "i1", "u2", *(["f2"] if dtype == "f8" else [])))
    return dtype if rng.random() < 0.75 else rng.choice(others)


def stored(rng, dtype, shape, core, room=0):
    """An input in an arena of its own, where `room` more bytes are free."""
    steps = strides(rng, dtype, shape, core, shared=True)
    arena = Arena(extent(dtype, shape, steps) + room)
    view = arena.place(rng, dtype, shape, steps)
    filled(rng, view)
    return arena, view


def made_call(rng, function, dtype):
    """A call of a function with random arrays."""
    lead = shapes_of_states(rng, function.numbers)
    results = [(*lead, *core) for core in function.outputs.values()]
    given_out, beside = rng.random() < 0.5, rng.random() < 0.3
    room = max(3 * prod(shape) * dtype.itemsize for shape in results) if beside else 0
    arenas, views = [], []
    for k, core in enumerate(function.inputs.values()):
        leading = cut(rng, lead) if k else lead
        kind = stored_dtype(rng, dtype, not k)
        arena, view = stored(rng, kind, (*leading, *core), len(core), room)
        arenas.append(arena)
        views.append(view)
    options = {}
    if given_out:
        options["out"] = out_of(rng, function, dtype, results, arenas, room)
    if rng.random() < 0.5:
        options["threads"] = rng.choice((None, 1, 2, 3, 8, np.int64(2)))
    values = [np.array(view).astype(dtype) for view in views]
    return Call(function, arrays_of(rng, function, views), options, arenas, values)


def out_of(rng, function, dtype, shapes, arenas, room):
    """Arrays for results: one of them in the arena of an input if there is room."""
    inputs, arrays = [*arenas], []
    beside = rng.randrange(len(shapes)) if room else None
    for k, (shape, core) in enumerate(zip(shapes, function.outputs.values(), strict=True)):
        steps = strides(rng, dtype, shape, len(core))
        size = extent(dtype, shape, steps)
        if k == beside and size <= room:
            arena = rng.choice(inputs)
        else:
            arena = Arena(size)
            arenas.append(arena)
        arrays.append(arena.place(rng, dtype, shape, steps))
    if len(arrays) == 1 and rng.random() < 0.7:
        return arrays[0]
    packed = tuple if function.packed is tuple else function.packed._make
    return rng.choice((tuple, list, packed))(arrays)


def arrays_of(rng, function, views):
    """The inputs by name: views, of which one may be a list or read-only."""
    arrays = dict(zip(function.inputs, views, strict=True))
    name = rng.choice([*arrays])
    chosen = rng.random()
    if chosen < 0.1:
        arrays[name].flags.writeable = False
    elif chosen < 0.2 and name != next(iter(arrays)) and arrays[name].size:
        arrays[name] = arrays[name].tolist()
    return arrays


def call_of(rng, model, made, call):
    """The callable and its arguments: of the function, or of the model's method."""
    method = getattr(model, made.name, None)
    takes = [] if method is None else [*signature(method).parameters]
    own = [*TABLE[made.name].inputs]
    of_time = made.name in STEPS  # methods refuse a dt that is not positive
    # and negative masses and armatures where they divide by M
    divided = TABLE[made.name].divides and not {"mass", "armature"}.isdisjoint(made.parameters)
    refuses = of_time or divided
    if set(own) <= set(takes) and not refuses and (made.at or rng.random() < 0.5):
        return method, *of_method(rng, made, call, own, takes)
    function = call.function
    if not made.at:
        options = made._asdict()
        for name in ("name", "wrenches", "parameters", "at", "tableau", "ground", "sensors"):
            options.pop(name)
        function = model.function(made.name, made.wrenches, params=made.parameters, **options)
    arrays = [*call.arrays.items()]
    split = rng.choice((len(arrays), rng.randrange(len(arrays) + 1)))
    named = dict(rng.sample(arrays[split:], len(arrays) - split))
    return function, [x for _, x in arrays[:split]], {**named, **call.options}


def of_method(rng, made, call, own, takes):
    """The arguments of the model's method."""
    arrays, options = call.arrays, dict(call.options)
    positional = [arrays[name] for name in own]
    if made.wrenches:
        options["f_ext"] = arrays["f_ext"]
        if made.wrenches == "world" or rng.random() < 0.3:
            options["f_ext_frame"] = made.wrenches
        if made.at:
            is_stored = isinstance(arrays["f_ext"], np.ndarray)
            wrenches = np.asarray(arrays["f_ext"], None if is_stored else call.values[0].dtype)
            options["f_ext"] = {name: wrenches[..., k, :] for k, name in enumerate(made.at)}
    if made.parameters:
        names = rng.sample(made.parameters, len(made.parameters))
        options["params"] = {name: arrays[name] for name in names}
    for name in ("frame", "reference", "wrt", "method"):
        value = getattr(made, name)
        if value is not None:
            options[name] = value
    return positional, options


# Checks


def wanted_of(call):
    """The results of contiguous arrays in one batch, which has one state more."""
    function, values = call.function, call.values
    cores = [*function.inputs.values()]
    leads = [x.shape[: x.ndim - len(core)] for x, core in zip(values, cores, strict=True)]
    lead = np.broadcast_shapes(*leads)
    flat = []
    for x, core in zip(values, cores, strict=True):
        rows = np.broadcast_to(x, (*lead, *core)).reshape((-1, *core))
        flat.append(np.concatenate([rows, np.ones((2, *core), x.dtype)]))
    results = function(*flat, threads=1)
    results = results if isinstance(results, tuple) else (results,)
    cores = function.outputs.values()
    return [x[:-2].reshape((*lead, *core)) for x, core in zip(results, cores, strict=True)]


def check(seed):
    """What is wrong with the call of a seed, or None."""
    warnings.simplefilter("error")
    rng, block = random.Random(f"call {seed}"), seed // CALLS
    try:
        function, chosen, dtype = checked(block, rng.randrange(len(variants(block))))
        call = made_call(rng, function, dtype)
        made = call_of(rng, robot(block), chosen, call)
        told = f"{robot(block).name} {chosen} {dtype}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    fault = refused(rng, call, made) if rng.random() < 0.15 else accepted(call, made)
    return fault and f"{told}: {fault}"


def memories(call):
    return [arena.bytes.copy() for arena in call.arenas]


def outs_of(call):
    out = call.options.get("out")
    return [] if out is None else [*out] if isinstance(out, tuple | list) else [out]


def protected(call):
    """Makes the arenas of inputs read-only, where no result lies."""
    for arena in call.arenas[: len(call.function.inputs)]:
        if not any(np.may_share_memory(arena.bytes, out) for out in outs_of(call)):
            arena.only_read()


def accepted(call, made):
    """What is wrong with the results of a call."""
    wanted, before = wanted_of(call), memories(call)
    protected(call)
    function, arrays, options = made
    try:
        found = function(*arrays, **options)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:500]}"
    out = outs_of(call)
    results = found if isinstance(found, tuple | list) else (found,)
    if len(wanted) > 1 and not isinstance(found, call.function.packed):
        return f"returns a {type(found).__name__}"
    for name, x, y in zip(call.function.outputs, results, wanted, strict=True):
        if not same(x, y):
            return f"{name} {x.shape} differs from that of contiguous arrays {y.shape}"
    if any(x is not y for x, y in zip(results, out, strict=bool(out))):
        return "the results are not the arrays of out"
    return changed(call, before, results if out else ())


def changed(call, before, results):
    """Which bytes changed that belong to no result."""
    for arena, bytes_before in zip(call.arenas, before, strict=True):
        for x in results:
            if np.may_share_memory(arena.bytes, x):
                start = x.__array_interface__["data"][0] - arena.bytes.ctypes.data
                np.ndarray(x.shape, x.dtype, bytes_before.data, start, x.strides)[...] = x
        where = np.flatnonzero(arena.bytes != bytes_before)
        if where.size:
            return f"{where.size} bytes changed from {where[0]} on, of {len(bytes_before)}"
    return None


def refused(rng, call, made):
    """What is wrong with a call that should be refused."""
    what, (function, arrays, options) = broken(rng, call, made)
    before = memories(call)
    protected(call)
    try:
        function(*arrays, **options)
    except (ValueError, TypeError) as error:
        fault = refusal_fault(error) or changed(call, before, ())
    except BaseException as error:
        fault = f"raises {type(error).__name__}: {error}"
    else:
        fault = "is accepted"
    return fault and f"{what}: {fault}"


# The command


def prepare():
    """Compiles into a folder that runs share, unless the user has chosen one."""
    if "FEATHERLANE_CACHE" not in os.environ:
        folder = os.path.join(tempfile.gettempdir(), f"featherlane-attack-{os.getuid()}")
        os.environ["FEATHERLANE_CACHE"] = folder
    fl.load("double_pendulum").mass_matrix(np.zeros(2))


def add_arguments(parser):
    parser.add_argument("--seed", type=int, default=0, help="the first call (default 0)")
    parser.add_argument("--count", type=int, default=2000, help="how many calls (default 2000)")


def findings(seeds):
    """Yields (seed, what is wrong) for the calls of these seeds."""
    worker = Worker(check, prepare, NOTHING, PROCESSOR_S)
    for seed, result in worker.results(seeds):
        if result is not None:
            yield seed, " ".join(result) if isinstance(result, Death) else result
    worker.stop()


def run(arguments):
    """Makes the calls; prints findings and a line for log.md; returns the number of findings."""
    first, last = arguments.seed, arguments.seed + arguments.count - 1
    kinds = Counter()
    for seed, fault in findings(range(first, last + 1)):
        kinds[fault[:60]] += 1
        if kinds[fault[:60]] < 5:
            print(f"seed {seed}: {fault[:1500]}", flush=True)
    today, count = time.strftime("%Y-%m-%d"), kinds.total()
    print(f"| {today} | calls | {first} to {last} | {arguments.count:,} | {count} |")
    return count
