"""`accelerator` and `multifunction`: accelerators of one function, and of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from featherlane.accelerators.accelerator import Accelerator
from featherlane.accelerators.choices import ARRAYS, AUTO, DesignSpec, check_choices
from featherlane.accelerators.computation import Computation, flat_of
from featherlane.accelerators.designers import Designer
from featherlane.accelerators.networks import NetworkAccelerator
from featherlane.accelerators.organise.pass_graph import SHARES
from featherlane.accelerators.pipelines import PipelineAccelerator
from featherlane.api.model import Model
from featherlane.backends.c.names import identifier
from featherlane.backends.fpga.network.structure import Network
from featherlane.backends.fpga.verilog import check_name
from featherlane.errors import shown
from featherlane.functions.array_like import WrenchFrame


def accelerator(
    model: Model,
    function: str = "inverse_dynamics",
    *,
    interval: int = 1,
    format: str = "q16.16",
    device: str = "xcvu9p",
    delays: str | None = None,
    clock: float = 125.0,
    sharing: str = "module",
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
) -> PipelineAccelerator:
    """Returns a function of a robot as a pipeline in fixed point, which takes a new state every
    `interval` clock cycles.

    function: the name of one of `Model`'s functions, as `generate` takes it. format: "q16.16" or
    alike for all signals, "proved": 32 bits each with binary points that rule out overflow for
    inputs within `ranges`, or "fitted": 27 bits, 18 for constants, sines and cosines, with binary
    points from sampled states; "proved24" and "fitted24/16" have so many bits. device, delays: a
    name of `backends.fpga.devices`, and one of its models of delays. clock: MHz. sharing: which
    operations may share multipliers: those of a
    "module" (the work of a joint), of a "class" of modules that are alike, or of the "whole".
    algorithm: of M^-1, forward dynamics and its derivatives, "deferred" (divisions once at the end,
    the shortest path), "factor" (the fewest products) or "bounded" (with bounds from mechanics,
    what proved formats take); also "mminvgen" of M^-1 and "aba" of forward dynamics. Of the
    derivatives of inverse dynamics, and those of forward dynamics from M^-1, "common" (sums over
    subtrees, dot products in one frame: the fewest products) or "body" (column by column in body
    frames, as in the papers: a shorter path); of inverse dynamics and its derivatives "scan"
    (prefix sums: the shortest path). ranges: (low, high) of inputs by name; by default the model's
    limits, and what `Model.function(backend="fixed")` states; in proved formats also of
    accelerations "a" that follow from torques, and saturate. f_ext: None, or the axes ("body" or
    "world") of an additional input, wrenches [force; moment] on the bodies (nbodies, 6) or at
    `frames` (frames, 6), by name and in this order, for whose entries 128 N or N m are expected.
    name: of the top module, by default the robot's and the function's. arrays: None for one
    pipeline; "limbs" for one of the robot's trunk and of each arm and leg, where those that are
    alike take turns on one if that needs less: fewer LUTs and flip-flops for more cycles (of the
    functions of `multifunction`); or "columns" for one of the columns of products with M^-1, in
    turn (of derivatives of forward dynamics). Both without f_ext and proved formats; `sharing` is
    then "whole" in each array, and algorithms that divide are "factor" by default.

    Sums are computed with one of their products, and rounded once, in the post-adders of DSPs,
    where the device has any and results do not come later for it; the result's `function` rounds
    as its circuit does.

    Raises CompileError for what no circuit computes, for a signal without bounds, for one format of
    all signals in which random states overflow, with one in which none does, and for a design that
    the device cannot hold, with the interval that would do.

    Examples:
        >>> made = fl.accelerator(arm, "inverse_dynamics", interval=2)
        >>> made.latency, made.interval
        (18, 2)
    """
    check_choices(model, interval, sharing, clock)
    if not isinstance(function, str):
        raise TypeError(f"function is {shown(function)}: wanted the name of a function")
    if arrays not in (None, *ARRAYS):
        wanted = "wanted None, 'limbs' or 'columns' ('auto' is for fl.multifunction)"
        raise ValueError(f"arrays is {shown(arrays)}: {wanted}")
    spec = DesignSpec(
        (function,),
        interval=int(interval),
        format=format,
        device=device,
        delays=delays,
        clock=float(clock),
        sharing="whole" if arrays else sharing,
        algorithm=algorithm,
        arrays=arrays,
        f_ext=f_ext,
        frames=frames,  # type: ignore[arg-type]  # checked where a variant takes them
        ranges={} if ranges is None else ranges,
    )
    pipeline = designed(model, spec, name)
    assert isinstance(pipeline, PipelineAccelerator), "the spec is of one function"
    return pipeline


def multifunction(
    model: Model,
    functions: Sequence[str] | None = None,
    *,
    interval: int = 1,
    format: str = "q16.16",
    device: str = "xcvu9p",
    delays: str | None = None,
    clock: float = 125.0,
    sharing: str = "module",
    spare: float = 0.0,
    algorithm: str | None = None,
    ranges: Mapping[str, tuple[Any, Any]] | None = None,
    tag_bits: int = 16,
    f_ext: WrenchFrame | None = None,
    frames: Sequence[str] = (),
    name: str | None = None,
    arrays: str | None = None,
) -> NetworkAccelerator:
    """Returns several functions of a robot in one design, which takes a task of any of them every
    `interval` clock cycles; the derivatives of forward dynamics pass it twice.

    functions: some of "inverse_dynamics", "forward_dynamics", "mass_matrix",
    "mass_matrix_inverse", "inverse_dynamics_derivatives", "forward_dynamics_derivatives_from" and
    "forward_dynamics_derivatives"; all seven if None. spare: a share by which the
    units of each kind may be more than tasks need, where that shortens the latency, such as 0.1.
    algorithm: of M^-1, "deferred" (the shortest path), "factor" (the fewest products) or "bounded"
    (what proved formats take). ranges: (low, high) of q, v, a, tau, minv and f_ext by name;
    accelerations and M^-1 that come back for a second pass saturate at the formats of a and minv.
    tag_bits: of a number that comes with a task and leaves with its result, since tasks of
    different functions overtake each other. arrays: None for two flat pipelines; "auto" for arrays
    in both: limbs that are alike take turns in what walks the tree, and columns in the product with
    M^-1, each where that needs less (`print(result.organisation)` says why): a fraction of the LUTs
    at long intervals, for robots with many joints. They take uniform and fitted formats, M^-1 by
    its factor, no wrenches, friction or joints that share coordinates; `sharing` is then "whole" in
    each array. f_ext, frames: for the functions that take wrenches; they and the other arguments
    are those of `accelerator`.

    Raises CompileError for what no circuit computes, and for a design that the device cannot hold,
    with the interval that would do.

    Examples:
        >>> both = fl.multifunction(arm, ["inverse_dynamics", "mass_matrix"], interval=4)
        >>> both.interval
        4
    """
    check_choices(model, interval, sharing, clock)
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
        raise ValueError(f"spare is {spare:g}: arrays have spare units of their own")
    spec = DesignSpec(
        chosen,
        is_network=True,
        interval=int(interval),
        format=format,
        device=device,
        delays=delays,
        clock=float(clock),
        sharing="whole" if arrays else sharing,
        algorithm=algorithm,
        arrays=arrays,
        f_ext=f_ext,
        frames=frames,  # type: ignore[arg-type]  # checked where a variant takes them
        spare=float(spare),
        tag_bits=int(tag_bits),
        ranges={} if ranges is None else ranges,
    )
    network = designed(model, spec, name)
    assert isinstance(network, NetworkAccelerator), "the spec is of several functions"
    return network


def _chosen(functions: Any) -> tuple[str, ...]:
    """The functions in the order of their codes."""
    if functions is None:
        return tuple(SHARES)
    if isinstance(functions, str) or not functions or not {*functions} <= {*SHARES}:
        wanted = f"wanted some of {', '.join(SHARES)}"
        raise ValueError(f"functions is {shown(functions)}: {wanted}")
    return tuple(name for name in SHARES if name in functions)


def designed(model: Model, spec: DesignSpec, name: str | None = None) -> Accelerator:
    """Returns the accelerator of a spec. Raises ValueError or CompileError for choices without a
    design, and CompileError for one that the device cannot hold, with an interval that would do.
    """
    top = identifier(f"{model.name}_{spec.short}") if name is None else name
    check_name(top)
    computation = Computation.of(model, spec)
    whole, organisation = computation.at(spec.interval)
    computation.check_outputs(flat_of(whole).graph)
    computation.check_overflow(flat_of(whole))
    designer = Designer(top, computation.spec)
    design, cost, whole = designer.best(whole, spec.interval)
    if not cost.fits:
        raise designer.refusal(whole, cost)
    if organisation is not None:
        organisation = replace(organisation, design=whole)  # type: ignore[arg-type]
    fields = top, computation, flat_of(whole), cost, organisation
    if isinstance(design, Network):
        return NetworkAccelerator(*fields, design)
    return PipelineAccelerator(*fields, design)
