"""All-prefix sums of lists.

The methods differ in depth and in work, for n elements (p is the number of bits set in n):

============= ============================== ===========================================
method        depth in combines              combines
============= ============================== ===========================================
serial        n - 1                          n - 1
kogge_stone   ceil(log2 n)                   n ceil(log2 n) - 2^ceil(log2 n) + 1
brent_kung    2 log2 n - 2, n a power of 2   2 n - p - floor(log2 n) - 1
blelloch      2 log2 n - 2, n a power of 2   2 (n - 1) - ceil(log2 n)
blocked       block + ceil(log2 blocks)      2 (n - blocks) - block + 1, and Kogge-Stone's
============= ============================== ===========================================

"reduce_then_scan" puts the first element before all blocks, so that all blocks do the same work.
For more than one block its depth is 2 block - 1 + ceil(log2 blocks); it has n - 1 + (blocks - 1)
(block - 1) combines, and Kogge-Stone's on the blocks. The first n - 1 of them compute results only,
the others totals of blocks only. So where elements are affine maps and only their values at a point
are wanted, the first n - 1 need not compose maps; "blocked" composes a map for each element.

P. M. Kogge, H. S. Stone, A parallel algorithm for the efficient solution of a general class of
recurrence equations, IEEE Trans. Computers C-22 (1973); R. P. Brent, H. T. Kung, A regular layout
for parallel adders, IEEE Trans. Computers C-31 (1982); G. E. Blelloch, Prefix sums and their
applications, CMU-CS-90-190 (1990); D. Merrill, M. Garland, Single-pass parallel prefix scan with
decoupled look-back, NVR-2016-002 (2016), on reduce-then-scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from featherlane.scalar import call

Combine = Callable[[Any, Any], Any]


def scan(
    combine: Combine,
    elements: Sequence[Any],
    method: str = "kogge_stone",
    reverse: bool = False,
    **options: int,
) -> list[Any]:
    """Returns elements[0] (+) ... (+) elements[i] for each i, with (+) = combine.

    `combine(a, b)` is associative; a stands before b. It need not commute and needs no identity.
    With `reverse`, result[i] = elements[i] (+) ... (+) elements[n - 1]. `method` is a key of
    `SCANS`; "blocked" and "reduce_then_scan" take `block=`, the number of elements of a block.
    Raises ValueError for any other method. Each combine is a recorded step (`scalar.call`).
    """
    run, combine = chosen(SCANS, method), stepwise(combine)
    if not reverse:
        return run(combine, elements, **options)
    return run(lambda a, b: combine(b, a), elements[::-1], **options)[::-1]


def stepwise(function: Combine) -> Combine:
    """Makes each application of a function a recorded step (`scalar.call`)."""
    return lambda a, b: call(function, a, b)


def chosen(table: dict[str, Callable[..., Any]], method: str) -> Callable[..., Any]:
    """Returns the method's function. Raises ValueError for a method that is not in the table."""
    if method not in table:
        raise ValueError(f"method is {method!r}; it may be one of {', '.join(table)}")
    return table[method]


def balanced(combine: Combine, elements: Sequence[Any]) -> Any:
    """Returns elements[0] (+) ... (+) elements[n - 1] for n > 0, ceil(log2 n) combines deep."""
    values = list(elements)
    while len(values) > 1:
        values = _pairs(combine, values)
    return values[0]


def _pairs(combine: Combine, values: list[Any]) -> list[Any]:
    """Combines neighbours; the last of an odd number of values stays as it is."""
    pairs = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
    return pairs + values[len(pairs) * 2 :]


def serial(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """Combines one element after the other."""
    values = list(elements)
    for i in range(1, len(values)):
        values[i] = combine(values[i - 1], values[i])
    return values


def kogge_stone(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """Combines every element with the one d before it, for d = 1, 2, 4 ...: the least depth."""
    values, d = list(elements), 1
    while d < len(values):
        sums = [combine(a, b) for a, b in zip(values, values[d:], strict=False)]
        values, d = values[:d] + sums, 2 * d
    return values


def brent_kung(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """Builds a tree of sums in place, then fills in the elements between them."""
    values, n = list(elements), len(elements)
    steps = [1 << k for k in range(max(n - 1, 0).bit_length())]
    rounds = [(2 * d - 1, d) for d in steps] + [(3 * d - 1, d) for d in reversed(steps)]
    for first, d in rounds:
        for i in range(first, n, 2 * d):
            values[i] = combine(values[i - d], values[i])
    return values


def blelloch(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """Sweeps up to the total, then down with the sum of all that stands before each node.

    Nothing stands before the first node: () stands for that identity, and (value,) for a sum.
    """
    sums = [list(elements)]
    while len(sums[-1]) > 1:
        sums.append(_pairs(combine, sums[-1]))
    before: list[tuple[Any, ...]] = [()]
    for level in reversed(sums[:-1]):
        lefts = level[: len(level) - 1 : 2]  # those with a right sibling
        halves = [
            (start, (combine(start[0], left) if start else left,))
            for start, left in zip(before, lefts, strict=False)
        ]
        before = [start for pair in halves for start in pair] + before[len(lefts) :]
    return [value for (value,) in before[1:]] + sums[-1]


def _blocks(elements: Sequence[Any], block: int) -> list[Sequence[Any]]:
    """Cuts a list into blocks; an empty list is one empty block."""
    if block < 1:
        raise ValueError(f"block is {block}; wanted 1 element or more")
    return [elements[i : i + block] for i in range(0, max(len(elements), 1), block)]


def blocked(combine: Combine, elements: Sequence[Any], block: int = 8) -> list[Any]:
    """Scans each block serially, and the blocks' totals by Kogge-Stone."""
    blocks = [serial(combine, values) for values in _blocks(elements, block)]
    totals = kogge_stone(combine, [values[-1] for values in blocks if values])
    result = blocks[0]
    for values, before, total in zip(blocks[1:], totals, totals[1:], strict=False):
        result = [*result, *[combine(before, value) for value in values[:-1]], total]
    return result


def reduce_then_scan(combine: Combine, elements: Sequence[Any], block: int = 8) -> list[Any]:
    """Reduces each block, scans the totals by Kogge-Stone, then each block from what is before it.

    Before the first block stands the first element, so that all blocks do the same work.
    """
    head, blocks = list(elements[:1]), _blocks(elements[1:], block)
    totals = kogge_stone(combine, head + [reduce(combine, values) for values in blocks[:-1]])
    result = head
    for before, values in zip(totals, blocks, strict=False):
        result = result + serial(combine, [before, *values])[1:]
    return result


SCANS: dict[str, Callable[..., list[Any]]] = {
    "serial": serial,
    "kogge_stone": kogge_stone,
    "brent_kung": brent_kung,
    "blelloch": blelloch,
    "blocked": blocked,
    "reduce_then_scan": reduce_then_scan,
}
