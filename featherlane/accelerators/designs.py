"""`accelerator` and `multifunction`: accelerators of one function, and of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

from featherlane.accelerators.accelerator import Accelerator
from featherlane.accelerators.choices import (
    ARRAYS,
    AUTO,
    DesignSpec,
    checked_spec,
    is_auto,
)
from featherlane.accelerators.computation import Computation, flat_of
from featherlane.accelerators.designers import (
    LONGEST_ON_BOARDS,
    Designer,
    LookedAt,
    datapath_of,
)
from featherlane.accelerators.networks import NetworkAccelerator
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.pipelines import PipelineAccelerator
from featherlane.accelerators.refusals import TooSmallError, refusal
from featherlane.accelerators.robot_labels import labels_of
from featherlane.api.model import Model
from featherlane.api.presented import explained
from featherlane.backends import stages
from featherlane.backends.c.names import identifier
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import check_name
from featherlane.errors import CompileError, instead, shown
from featherlane.functions.array_like import WrenchFrame

FEWEST = "inverse_dynamics", "mass_matrix"  # the functions that take least


@explained
def accelerator(
    model: Model,
    function: str = "inverse_dynamics",
    *,
    interval: int | Literal["auto"] = 1,
    format: str | None = None,
    device: str | None = None,
    delays: str | None = None,
    clock: float | None = None,
    sharing: str | None = None,
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
    board: str | None = None,
    datapath: str | None = None,
) -> PipelineAccelerator:
    """Returns a function of a robot as a pipeline in fixed point, which takes a new state every
    `interval` clock cycles.

    Sums are computed with one of their products in the post-adders of DSPs, and rounded once, if
    the device has post-adders and the latency does not grow. The result's `function` rounds like
    its circuit.

    Raises CompileError for operations without a circuit, for a signal without bounds, for a uniform
    format in which random states overflow (naming one in which none does), and for a design that
    the device cannot hold (naming the interval that fits).

    Arguments:
        model: the robot
        function: the name of one of `Model`'s functions, as in `generate`
        interval: clock cycles from one state to the next; "auto" is one at which a design fits,
            and at the next shorter one none does, by estimates of heuristic schedules
        format: a uniform format such as "q16.16" for all signals; "proved", with 32 bits and binary
            points that rule out overflow for inputs within `ranges`; or "fitted", with 27 bits, 18
            for constants, sines and cosines, and binary points from sampled states. "proved24" and
            "fitted24/16" set other numbers of bits. None: "q16.16", and "fitted18" on a board
        device: a name in `backends.fpga.devices`; None: the board's, and "xcvu9p" without a board
        delays: the name of one of the device's delay models; None: its first one
        clock: MHz; None: 125, and 60 on a board
        sharing: operations that may share multipliers: those of a "module" (a step of a joint), of
            a "class" of isomorphic modules, or of the "whole" design. None: "module", and "whole"
            on a board
        algorithm: for M^-1, forward dynamics and its derivatives, "deferred" (divisions at the end,
            the shortest path), "factor" (the fewest products) or "bounded" (with bounds from
            mechanics, for proved formats); also "mminvgen" for M^-1 and "aba" for forward dynamics.
            For the derivatives of inverse dynamics, and of forward dynamics from M^-1, "common"
            (sums over subtrees, dot products in one frame: the fewest products) or "body" (column
            by column in body frames, as in the papers: a shorter path). For inverse dynamics and
            its derivatives, also "scan" (prefix sums: the shortest path). None: the usual one of
            the function; in arrays, "factor"
        ranges: {input: (low, high)}. In proved formats also the range of accelerations "a" caused
            by torques, which saturate. None: the model's limits, and the defaults of
            `Model.function(backend="fixed")`
        f_ext: the axes ("body" or "world") of a further input, wrenches [force; moment] on the
            bodies (nbodies, 6), or at `frames` (frames, 6); None: no such input
        frames: names of frames with wrenches, whose default range is 128 N or N m
        name: the name of the top module; None: from the robot and the function
        arrays: "limbs" for separate arrays of the robot's trunk, arms and legs, with isomorphic
            limbs time-multiplexed on one array if that needs less (fewer LUTs and flip-flops for
            more cycles; for the functions of `multifunction`); or "columns" for an array that
            time-multiplexes the columns of products with M^-1 (for derivatives of forward
            dynamics). Arrays take neither f_ext nor proved formats; `sharing` is then "whole" in
            each array. None: one pipeline
        board: a name in `backends.fpga.boards`, such as "ulx3s": the device is the one of this
            board, at its speed grade, and a design may take as much of it as open tools route;
            `bitstream` then builds it. None: no board
        datapath: "shared" for multipliers with multiplexers in front of them and registers behind;
            "memories" for units with a memory for each operand, which accumulate sums of products
            and are controlled by micro-code (far fewer LUTs at long intervals, for more cycles,
            multipliers and blocks of RAM; at intervals from 2 on; a sum of products is rounded
            once); or "auto" for the one that needs the smaller share of the device, on a board for
            "memories" only where "shared" does not fit. None: "shared", and "auto" on a board

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=2)
        >>> made.latency, made.interval
        (18, 2)
    """
    if not isinstance(function, str):
        raise TypeError(f"function is {shown(function)}: wanted the name of a function")
    if arrays not in (None, *ARRAYS):
        wanted = "wanted None, 'limbs' or 'columns' ('auto' is for fl.multifunction)"
        raise ValueError(f"arrays is {shown(arrays)}: {wanted}")
    spec = checked_spec(
        model, functions=(function,), interval=interval, format=format, device=device,
        delays=delays, clock=clock, sharing=sharing, algorithm=algorithm, ranges=ranges,
        f_ext=f_ext, frames=frames, arrays=arrays, board=board, datapath=datapath,
    )  # fmt: skip
    pipeline = (smallest if is_auto(interval) else designed)(model, spec, name)
    assert isinstance(pipeline, PipelineAccelerator), "the spec is of one function"
    return pipeline


@explained
def multifunction(
    model: Model,
    functions: Sequence[str] | None = None,
    *,
    interval: int | Literal["auto"] = 1,
    format: str | None = None,
    device: str | None = None,
    delays: str | None = None,
    clock: float | None = None,
    sharing: str | None = None,
    spare: float = 0.0,
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    tag_bits: int = 16,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
    board: str | None = None,
    datapath: str | None = None,
) -> NetworkAccelerator:
    """Returns several functions of a robot in one design, which takes a task of any of them every
    `interval` clock cycles; the derivatives of forward dynamics pass it twice.

    Raises CompileError for operations without a circuit, and for a design that the device cannot
    hold (naming the interval that fits).

    Arguments:
        model: the robot
        functions: some of "inverse_dynamics", "forward_dynamics", "mass_matrix",
            "mass_matrix_inverse", "inverse_dynamics_derivatives",
            "forward_dynamics_derivatives_from" and "forward_dynamics_derivatives"; None: all seven
        interval: clock cycles from one task to the next; "auto" as in `accelerator`
        format: as in `accelerator`; in arrays, a uniform or fitted one. None: "q16.16", and
            "fitted18" on a board
        device: a name in `backends.fpga.devices`; None: the board's, and "xcvu9p" without a board
        delays: the name of one of the device's delay models; None: its first one
        clock: MHz; None: 125, and 60 on a board
        sharing: as in `accelerator`; in arrays, "whole" in each. None: "module", and "whole" on a
            board
        spare: fraction by which the units of each kind may exceed the number that tasks need, if
            that shortens the latency, such as 0.1
        algorithm: for M^-1, "deferred" (the shortest path), "factor" (the fewest products, the one
            of arrays) or "bounded" (for proved formats); None: the usual one
        ranges: (low, high) of q, v, a, tau, minv and f_ext by name; accelerations and M^-1 of a
            second pass saturate at the formats of a and minv. None: as in `accelerator`
        tag_bits: bits of a tag that accompanies a task and its result, since tasks of different
            functions overtake each other
        f_ext: the axes of wrenches, as in `accelerator`, without arrays; None: no wrenches
        frames: names of frames with wrenches
        name: the name of the top module; None: from the robot
        arrays: "auto" for arrays in both pipelines: isomorphic limbs are time-multiplexed in the
            recursions over the tree, and columns in the product with M^-1, each if that needs less
            (`print(result.organisation)` shows the reasons). This takes a fraction of the LUTs at
            long intervals, for robots with many joints without friction or joints that share
            coordinates. None: two flat pipelines
        board: as in `accelerator`; all functions are behind one serial port, whose driver takes the
            name of one: `device.run(states, "mass_matrix")`. None: no board
        datapath: as in `accelerator`, of both pipelines. None: "shared", and "auto" on a board

    Examples:
        >>> both = fl.multifunction(arm, ["inverse_dynamics", "mass_matrix"], interval=4)
        >>> both.interval
        4
    """
    chosen = _chosen(functions)
    if not isinstance(tag_bits, int) or not 1 <= tag_bits <= 32:
        raise ValueError(f"tag_bits is {shown(tag_bits)}: wanted a whole number from 1 to 32")
    if not isinstance(spare, Real) or isinstance(spare, bool) or not 0 <= float(spare) <= 4:
        raise ValueError(f"spare is {shown(spare)}: wanted a share, such as 0.1")
    if arrays not in (None, AUTO):
        wanted = f"wanted None or {AUTO!r}, limbs and columns"
        raise ValueError(f"arrays is {shown(arrays)}: {wanted}")
    if arrays and f_ext:
        raise ValueError(f"f_ext is {shown(f_ext)}: arrays take no wrenches")
    if arrays and spare:
        raise ValueError(f"spare is {spare:g}: arrays have their spare units")
    spec = checked_spec(
        model, functions=chosen, is_network=True, interval=interval, format=format, device=device,
        delays=delays, clock=clock, sharing=sharing, spare=float(spare), algorithm=algorithm,
        ranges=ranges, tag_bits=int(tag_bits), f_ext=f_ext, frames=frames, arrays=arrays,
        board=board, datapath=datapath,
    )  # fmt: skip
    network = (smallest if is_auto(interval) else designed)(model, spec, name)
    assert isinstance(network, NetworkAccelerator), "the spec is of several functions"
    return network


def smallest(model: Model, spec: DesignSpec, name: str | None = None) -> Accelerator:
    """Returns the accelerator of a spec at the spec's interval, or at a longer one that fits, while
    the one before does not (`designers.interval_that_fits`). Errors as of `designed`.
    """
    top, looked_at = name_of_top(model, spec.short, name), LookedAt()
    computation = _checked(model, spec)
    try:
        return _designed(computation, top, looked_at)
    except TooSmallError as error:
        if error.interval is None:
            raise
        computation.spec = replace(computation.spec, interval=error.interval)
        return _designed(computation, top, looked_at)


def _chosen(functions: Any) -> tuple[str, ...]:
    """The functions in the order of their codes. Raises ValueError for unknown or repeated ones."""
    if functions is None:
        return tuple(SHARES)
    several = isinstance(functions, Iterable) and not isinstance(functions, str)
    listed = [*functions] if several else []
    if not listed:
        wanted = f"wanted some of {', '.join(SHARES)}"
        raise ValueError(f"functions is {shown(functions)}: {wanted}")
    for name in listed:
        if not isinstance(name, str) or name not in SHARES:
            raise ValueError(f"functions has {shown(name)}{instead(name, SHARES)}")
    if len({*listed}) < len(listed):
        raise ValueError(f"functions is {shown(functions)}: wanted each function once")
    return tuple(name for name in SHARES if name in listed)


def designed(model: Model, spec: DesignSpec, name: str | None = None) -> Accelerator:
    """Returns the accelerator of a spec. Raises ValueError or CompileError for choices without a
    design, and CompileError for one that the device cannot hold, with an interval that would do, or
    functions that would, if there are any.
    """
    top = name_of_top(model, spec.short, name)
    return _designed(_checked(model, spec), top, LookedAt())


def name_of_top(model: Model, short: str, name: str | None) -> str:
    """The name of the top module, or a name that a user gives it. short: `DesignSpec.short`. Raises
    ValueError for what is no name.
    """
    top = identifier(f"{model.name}_{short}") if name is None else name
    check_name(top)
    return top


def _checked(model: Model, spec: DesignSpec) -> Computation:
    """The arithmetic of a spec, without constant outputs and overflows."""
    stages.begin(f"formats of {spec.label}")
    computation = Computation.of(model, spec)
    flat = flat_of(computation.at(spec.interval)[0])
    computation.check_outputs(flat.graph)
    computation.check_overflow(flat)
    return computation


def _designed(computation: Computation, top: str, looked_at: LookedAt) -> Accelerator:
    """The accelerator of a computation at the interval of its spec. Raises TooSmallError."""
    spec = computation.spec
    whole, organisation = computation.at(spec.interval)
    labels = labels_of(computation.model, flat_of(whole).graph, spec.frames)
    designer = Designer(top, spec, labels=labels, looked_at=looked_at)
    stages.begin(f"least resources of {spec.label} at interval {spec.interval}")
    least = designer.least(whole, spec.interval)
    if not least.fits:  # before a schedule, of minutes for a large robot
        raise _refusal(refusal(designer, whole, least), computation)
    design, cost, computed = designer.best(whole, spec.interval)
    if not cost.fits:
        raise _refusal(refusal(designer, whole, cost), computation)
    computation.spec = replace(spec, datapath=datapath_of(design))
    if organisation is not None:
        organisation = replace(organisation, design=computed)  # type: ignore[arg-type]
    fields = top, computation, flat_of(computed), cost, organisation
    if isinstance(design, Network):
        return NetworkAccelerator(*fields, design)
    return PipelineAccelerator(*fields, design)


def _refusal(error: TooSmallError, computation: Computation) -> TooSmallError:
    """The error of a design that does not fit, with functions of the same robot that may, if none
    of its intervals does.
    """
    model, spec = computation.model, computation.spec
    if error.interval is not None or spec.board is None:
        return error
    stages.begin(f"least resources of {' and '.join(FEWEST)} alone")
    smaller = [name for name in FEWEST if (name,) != spec.functions and _may_fit(model, spec, name)]
    if not smaller:
        return error
    return TooSmallError(f"{error}; {' or '.join(smaller)} alone may fit", None)


def _may_fit(model: Model, spec: DesignSpec, function: str) -> bool:
    """Whether a function may fit at a long interval, by the least that it takes."""
    alone = replace(spec, functions=(function,), is_network=False, algorithm=None, arrays=None)
    try:
        computation = Computation.of(model, alone)
        whole, _ = computation.at(LONGEST_ON_BOARDS)
        return Designer("tried", computation.spec).least(whole, LONGEST_ON_BOARDS).fits
    except (CompileError, ValueError):  # without a circuit, or with other ranges
        return False
