"""The formats of bound operations: what runs keep of their sums, and the accumulators of units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.runs import RunTerm
from featherlane.backends.fpga.memories.binding import Binding
from featherlane.backends.fpga.memories.operations import (
    INPUT,
    MULTIPLY,
    OUTPUTS,
    ClusterTerm,
    UnitOperation,
    has_product,
    operands,
)
from featherlane.backends.fpga.text import signed_width
from featherlane.backends.fpga.units.accumulator import Accumulator
from featherlane.backends.fpga.units.dsp48e2 import BITS
from featherlane.backends.fpga.units.multipliers import Tile
from featherlane.errors import CompileError


class Slice(NamedTuple):
    """The bits of a sum that a result keeps: `width` bits from `shift` upwards."""

    shift: int
    width: int


class RunFormat(NamedTuple):
    """The computation of a run: the fraction of its sum, what it starts with, and the bits that the
    result keeps.
    """

    fraction: int
    initial: int
    slice: Slice


@dataclass(frozen=True)
class UnitFormats:
    """The formats of runs and units, which follow from the binding.

    datapath: with runs; narrow: the same in formats without bits that repeat the sign. runs: by
    operation. outputs: the bits of the outputs of each unit, 0 for none. accumulators: by unit.
    """

    datapath: Datapath
    narrow: Datapath
    runs: Mapping[int, RunFormat]
    outputs: Sequence[Sequence[int]]
    accumulators: Mapping[int, Accumulator]

    def constants(self, n: int, term: RunTerm | ClusterTerm) -> dict[int, int]:
        """The integers of the constants of a term of operation n, by their ports."""
        if isinstance(term, ClusterTerm):
            numbers = {place: k for place, k in enumerate(term.values) if self._is_constant(k)}
            return {place: self._integer(k) for place, k in numbers.items()}
        if term.b is None:
            one = self.runs[n].fraction - self.datapath.format(term.a).fraction
            return {1: 1 << one}
        constant = next((k for k in (term.a, term.b) if self._is_constant(k)), None)
        return {} if constant is None else {1: self._integer(constant)}

    def _is_constant(self, k: int) -> bool:
        return self.datapath.graph.op[k] == "constant"

    def _integer(self, k: int) -> int:
        return round(self.datapath.graph.value[k] / self.datapath.format(k).step)


def formats_of(
    datapath: Datapath,
    narrow: Datapath,
    operations: Sequence[UnitOperation],
    binding: Binding,
    tile: Tile,
) -> UnitFormats:
    """Returns the formats of bound operations. Raises CompileError for a sum of too many bits."""
    on_unit = defaultdict[int, list[int]](list)
    for n, unit in enumerate(binding.unit):
        on_unit[unit].append(n)
    outputs = [[0] * OUTPUTS for _ in binding.kinds]
    for operation, unit in zip(operations, binding.unit, strict=True):
        for k, (n, _) in operation.places(datapath).items():
            outputs[unit][n] = max(outputs[unit][n], narrow.format(k).width)
    runs = dict[int, RunFormat]()
    accumulators = dict[int, Accumulator]()
    for u, kind in enumerate(binding.kinds):
        if kind == MULTIPLY:
            on_this = [operations[n] for n in on_unit[u]]
            dropped = {
                x.fraction - datapath.format(x.gives[0]).fraction for x in on_this if has_product(x)
            }
            for n, x in zip(on_unit[u], on_this, strict=True):
                runs[n] = _run_format(datapath, narrow, x, dropped, outputs[u][0])
    formats = UnitFormats(datapath, narrow, runs, outputs, accumulators)
    for u, kind in enumerate(binding.kinds):
        if kind == MULTIPLY:
            accumulators[u] = _accumulator(formats, operations, binding, on_unit[u], tile)
    return formats


def _run_format(
    datapath: Datapath,
    narrow: Datapath,
    operation: UnitOperation,
    dropped: Collection[int],
    width: int,
) -> RunFormat:
    """The format of a run. A sum without products gets a fraction at which its result drops as many
    places as that of another run on its unit, if there is one, so that they keep the same bits of
    the sum. dropped: the places of others; width: bits of the output.
    """
    root, fraction, initial = operation.gives[0], operation.fraction, operation.initial
    to = datapath.format(root)
    if not has_product(operation):
        finest = max(fraction, to.fraction)
        coarsest = min((datapath.format(term.a).fraction for term in operation.run), default=0)
        most = coarsest + datapath.format(root).width - 2  # a power of two has no more bits
        most = min(most, to.fraction + BITS - to.width)
        fitting = [to.fraction + n for n in dropped if finest <= to.fraction + n <= most]
        higher = max(fitting, default=finest) - fraction
        is_exact = fraction <= to.fraction
        fraction, initial = fraction + higher, initial << higher
        if is_exact and fraction > to.fraction:  # half changes nothing, and others begin with it
            initial += 1 << fraction - to.fraction - 1
    shift = fraction - to.fraction
    if shift < 0:
        raise CompileError(
            f"node {root} is {to} and its sum has {fraction} places: wanted as many or more, as "
            "uniform formats have"
        )
    wraps = narrow.format(root).width == to.width or shift + width > BITS
    return RunFormat(fraction, initial, Slice(shift, to.width if wraps else width))


def _accumulator(
    formats: UnitFormats,
    operations: Sequence[UnitOperation],
    binding: Binding,
    runs: Sequence[int],
    tile: Tile,
) -> Accumulator:
    """The accumulator of a unit for its runs."""
    widths = [1, 1]
    for n in runs:
        for term, swap in zip(operations[n].run, binding.swapped[n], strict=True):
            for place, value in enumerate(operands(formats.datapath, term)):
                bits = (
                    signed_width(formats.constants(n, term)[1])
                    if value is None
                    else formats.narrow.format(value).width
                )
                widths[place ^ swap] = max(widths[place ^ swap], bits)
    kept = max(sum(formats.runs[n].slice) for n in runs)
    if kept > BITS:
        raise CompileError(f"a sum has {kept} bits up to its result: wanted {BITS} at most")
    return Accumulator(widths[0], widths[1], kept, tile)


def unit_cycles(
    formats: UnitFormats, binding: Binding, of_clusters: Mapping[str, int]
) -> list[int]:
    """Returns the cycles of each unit, from the last term that it reads to its output: those of
    what it computes, and two registers, of operands and of the result; of a lane, one.

    of_clusters: by kind.
    """
    return [
        1 if kind == INPUT
        else 2 + (formats.accumulators[u].cycles if kind == MULTIPLY else of_clusters[kind])
        for u, kind in enumerate(binding.kinds)
    ]  # fmt: skip
