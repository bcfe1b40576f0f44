"""Fusion of sums with one of their products, in the post-adder of a device.

A sum in a DSP takes a cycle, and no LUTs. Two sums in LUTs fit into that cycle, so that a chain of
fused ones may be a longer path: where it is, the sums that wait for their other operand stay in
LUTs, until the datapath is as fast as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from featherlane.backends.fixed.datapath import Datapath
from featherlane.backends.fixed.formats import Format
from featherlane.backends.fixed.narrow import narrowed
from featherlane.backends.fpga.devices import Device, is_shift, operators, significant
from featherlane.backends.fpga.expressions import factor
from featherlane.backends.fpga.units.multipliers import Multiplier
from featherlane.backends.fpga.units.post_adder import chain
from featherlane.program.analysis.modulo import earliness, waiting_followers

Shrink = Callable[[Datapath], Datapath]  # gives formats without bits that nothing needs


def fused(
    datapath: Datapath,
    device: Device,
    slack: int = 0,
    ports: bool = False,
    narrows: bool = True,
) -> Datapath:
    """Returns a datapath with fused products (`Datapath.fused`), which is not slower at an interval
    of one cycle; the same one if the device has no post-adders.

    Fused is a product that nothing else reads, of the call of its sum, from which nothing is
    subtracted, if one DSP or a chain of them computes both. slack: cycles by
    which paths with a fused sum that waits are shorter than the longest one: at longer intervals
    what is fused is harder to place, since its addend must be there in the phase of the product.
    ports: whether outputs leave as early as they are there, and none may be later; else together.
    narrows: whether circuits have the formats of `narrowed`, and not those that there are.
    """
    if not device.tile.post_adder:
        return datapath
    shrink: Shrink = narrowed if narrows else lambda datapath: datapath
    units = lambda datapath: operators(shrink(datapath), device)
    early = earliness(datapath.graph, units(datapath), device.clock) if ports else {}
    timed = lambda datapath, latency: waiting_followers(
        datapath.graph, units(datapath), device.clock, latency, early
    )
    bound = timed(datapath, 0)[0] - slack
    chosen = _candidates(datapath, device, shrink)
    while True:
        changed = _with(datapath, chosen.values())
        if lost := _without_chain(changed, chosen, device, shrink):
            for k in lost:
                del chosen[k]
            continue
        latency, waiting = timed(changed, bound)
        if latency <= bound or not waiting:
            return changed
        for k in waiting:
            del chosen[k]


def _candidates(datapath: Datapath, device: Device, shrink: Shrink) -> dict[int, int]:
    """The sums that can be computed with a product, and these products. Of two the second one: its
    sum is a difference, or it may be either.
    """
    graph, narrow = datapath.graph, shrink(datapath)
    readers = [0] * len(graph)
    for a in (a for args in graph.args for a in args):
        readers[a] += 1
    for out in graph.outputs.values():
        for k in out.nodes:
            readers[k] += 1
    sums = dict[int, int]()
    for k in sorted(graph.nodes_of("add") + graph.nodes_of("sub")):
        for n in range(graph.op[k] == "sub", 2):
            p = graph.args[k][n]
            if readers[p] == 1 and _can_follow(datapath, narrow, device, k, n):
                sums[k] = p
    return sums


def _without_chain(
    datapath: Datapath, chosen: Mapping[int, int], device: Device, shrink: Shrink
) -> list[int]:
    """The sums that no DSP can compute once products are fused, since that changes their widths."""
    narrow = shrink(datapath)
    position = {k: narrow.graph.args[k].index(p) for k, p in chosen.items()}
    return [k for k, n in position.items() if not _can_follow(datapath, narrow, device, k, n)]


def _with(datapath: Datapath, products: Iterable[int]) -> Datapath:
    """The datapath with these products fused."""
    formats = list(datapath.formats)
    for p in products:
        a, b = (datapath.format(a) for a in datapath.graph.args[p])
        formats[p] = Format(a.width + b.width, a.fraction + b.fraction)
    return Datapath(datapath.graph, tuple(formats), frozenset(products))


def _can_follow(datapath: Datapath, narrow: Datapath, device: Device, k: int, n: int) -> bool:
    """Whether node k can be computed with its n-th operand."""
    graph = datapath.graph
    p, other = graph.args[k][n], graph.args[k][1 - n]
    call = lambda k: getattr(graph.tag[k], "call", 0)
    if graph.op[p] != "mul" or call(p) != call(k):
        return False
    if "power_of_two" in [graph.op[a] for a in graph.args[p]] or is_shift(datapath, p):
        return False
    fraction = sum(datapath.format(a).fraction for a in graph.args[p])
    if (constant := factor(datapath, p)) is not None:
        if constant[1].odd in (-1, 0, 1):
            return False
        fraction -= constant[1].places
    to = narrow.format(k)
    shift = fraction - to.fraction
    if shift < 0 or datapath.format(other).fraction > fraction:
        return False
    cycles = device.delays["multiply"].cycles
    b, a = sorted(significant(narrow, a) for a in graph.args[p])
    return chain(Multiplier(a, b, shift + to.width, cycles), device.tile) is not None
