"""The formats of bound operations: what runs keep of their sums, and the accumulators of units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.runs import RunTerm
from featherlane.backends.fpga.memories.binding import Binding
from featherlane.backends.fpga.memories.operations import (
    INPUT,
    MULTIPLY,
    UnitOperation,
    operands,
    output_of,
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
    operation. outputs: the bits of both outputs of each unit, 0
    for none. accumulators: by unit.
    """

    datapath: Datapath
    narrow: Datapath
    runs: Mapping[int, RunFormat]
    outputs: Sequence[Sequence[int]]
    accumulators: Mapping[int, Accumulator]

    def constant(self, n: int, term: RunTerm) -> int:
        """The integer of the constant at the second port of a term of operation n."""
        graph = self.datapath.graph
        if term.b is None:
            return 1 << self.runs[n].fraction - self.datapath.format(term.a).fraction
        k = term.a if graph.op[term.a] == "constant" else term.b
        return round(graph.value[k] / self.datapath.format(k).step)


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
    outputs = [[0, 0] for _ in binding.kinds]
    for operation, unit in zip(operations, binding.unit, strict=True):
        for k in operation.gives:
            n = output_of(datapath, k)
            outputs[unit][n] = max(outputs[unit][n], narrow.format(k).width)
    runs = dict[int, RunFormat]()
    accumulators = dict[int, Accumulator]()
    for u, kind in enumerate(binding.kinds):
        if kind == MULTIPLY:
            fractions = [operations[n].fraction for n in on_unit[u] if _has_product(operations[n])]
            for n in on_unit[u]:
                of_products = max(fractions, default=operations[n].fraction)
                runs[n] = _run_format(datapath, narrow, operations[n], of_products, outputs[u][0])
    formats = UnitFormats(datapath, narrow, runs, outputs, accumulators)
    for u, kind in enumerate(binding.kinds):
        if kind == MULTIPLY:
            accumulators[u] = _accumulator(formats, operations, binding, on_unit[u], tile)
    return formats


def _has_product(operation: UnitOperation) -> bool:
    return any(term.b is not None for term in operation.terms)


def _run_format(
    datapath: Datapath, narrow: Datapath, operation: UnitOperation, of_products: int, width: int
) -> RunFormat:
    """The format of a run. A sum without products gets the fraction of products on its unit, so
    that all runs there keep the same bits. width: bits of the output.
    """
    (root,), fraction, initial = operation.gives, operation.fraction, operation.initial
    to = datapath.format(root)
    if not _has_product(operation):
        higher = max(of_products, to.fraction, fraction) - fraction
        half = 1 << higher - 1 if higher and fraction <= to.fraction else 0
        fraction, initial = fraction + higher, (initial << higher) + half
    shift = fraction - to.fraction
    if shift < 0:
        raise CompileError(
            f"node {root} is {to} and its sum has {fraction} places: wanted as many or more, as "
            "uniform formats have"
        )
    wraps = narrow.format(root).width == to.width
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
        for term, swap in zip(operations[n].terms, binding.swapped[n], strict=True):
            for place, value in enumerate(operands(formats.datapath, term)):
                bits = (
                    signed_width(formats.constant(n, term))
                    if value is None
                    else formats.narrow.format(value).width
                )
                widths[place ^ swap] = max(widths[place ^ swap], bits)
    kept = max(sum(formats.runs[n].slice) for n in runs)
    if kept > BITS:
        raise CompileError(f"a sum has {kept} bits up to its result: wanted {BITS} at most")
    return Accumulator(widths[0], widths[1], kept, tile)


def unit_cycles(formats: UnitFormats, binding: Binding, function_cycles: int) -> list[int]:
    """Returns the cycles of each unit, from the last term that it reads to its output: those of
    what it computes, and two registers, of operands and of the result; of a lane, one.
    """
    return [
        1 if kind == INPUT
        else 2 + (formats.accumulators[u].cycles if kind == MULTIPLY else function_cycles)
        for u, kind in enumerate(binding.kinds)
    ]  # fmt: skip
