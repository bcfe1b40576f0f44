"""All-prefix sums of lists.

The methods differ in depth and in work, for n elements (p bits of n are set):

============= ============================== ===========================================
method        depth in combines              combines
============= ============================== ===========================================
serial        n - 1                          n - 1
kogge_stone   ceil(log2 n)                   n ceil(log2 n) - 2^ceil(log2 n) + 1
brent_kung    2 log2 n - 2, n a power of 2   2 n - p - floor(log2 n) - 1
blelloch      2 log2 n - 2, n a power of 2   2 (n - 1) - ceil(log2 n)
blocked       block + ceil(log2 blocks)      2 (n - blocks) - block + 1, and Kogge-Stone's
============= ============================== ===========================================

"reduce_then_scan" leaves the first element before all blocks, so that these do the same. It is
2 block - 1 + ceil(log2 blocks) deep, for more than one block, and combines n - 1 + (blocks - 1)
(block - 1) elements, and those of Kogge-Stone on the blocks. The first n - 1 of these make nothing
but results, the others nothing but totals. Where elements are maps and only what they make of a
point is wanted, the former need not compose maps, and of the maps in a block only the total is
kept; "blocked" keeps one for each element.

P. M. Kogge, H. S. Stone, A parallel algorithm for the efficient solution of a general class of
recurrence equations, IEEE Trans. Computers C-22 (1973); R. P. Brent, H. T. Kung, A regular layout
for parallel adders, IEEE Trans. Computers C-31 (1982); G. E. Blelloch, Prefix sums and their
applications, CMU-CS-90-190 (1990); D. Merrill, M. Garland, Single-pass parallel prefix scan with
decoupled look-back, NVR-2016-002 (2016), on scans that reduce first.
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
    """result[i] = elements[0] (+) ... (+) elements[i], with (+) = combine.

    `combine(a, b)` is associative and gets what stands first as `a`; it need not commute and needs
    no identity. With `reverse`, result[i] = elements[i] (+) ... (+) elements[n - 1]. `method` is a
    key of `SCANS`; "blocked" and "reduce_then_scan" take `block=`, the number of elements of a
    block. ValueError for any other method. Each combine is a step (`walk.call`).
    """
    run, combine = chosen(SCANS, method), stepwise(combine)
    if not reverse:
        return run(combine, elements, **options)
    return run(lambda a, b: combine(b, a), elements[::-1], **options)[::-1]


def stepwise(function: Combine) -> Combine:
    """The function as a step that many elements have in common."""
    return lambda a, b: call(function, a, b)


def chosen(table: dict[str, Callable[..., Any]], method: str) -> Callable[..., Any]:
    """The method's function; ValueError for what is not in the table."""
    if method not in table:
        raise ValueError(f"method is {method!r}; it may be one of {', '.join(table)}")
    return table[method]


def balanced(combine: Combine, elements: Sequence[Any]) -> Any:
    """elements[0] (+) ... (+) elements[n - 1] for n > 0, in ceil(log2 n) rounds."""
    values = list(elements)
    while len(values) > 1:
        values = _pairs(combine, values)
    return values[0]


def _pairs(combine: Combine, values: list[Any]) -> list[Any]:
    """Neighbours combined; the last of an odd number stays as it is."""
    pairs = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
    return pairs + values[len(pairs) * 2 :]


def serial(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """One after the other."""
    values = list(elements)
    for i in range(1, len(values)):
        values[i] = combine(values[i - 1], values[i])
    return values


def kogge_stone(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """The least depth: in each round every element reaches back twice as far."""
    values, d = list(elements), 1
    while d < len(values):
        moved = [combine(a, b) for a, b in zip(values, values[d:], strict=False)]
        values, d = values[:d] + moved, 2 * d
    return values


def brent_kung(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """In place: a tree of sums upwards, and the elements between filled in downwards."""
    values, n = list(elements), len(elements)
    steps = [1 << k for k in range(max(n - 1, 0).bit_length())]
    rounds = [(2 * d - 1, d) for d in steps] + [(3 * d - 1, d) for d in reversed(steps)]
    for first, d in rounds:
        for i in range(first, n, 2 * d):
            values[i] = combine(values[i - d], values[i])
    return values


def blelloch(combine: Combine, elements: Sequence[Any]) -> list[Any]:
    """Up-sweep to the total, down-sweep of what stands before each node of the tree of sums.

    What stands before the first node is an identity that is never made: () instead of (value,).
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
    """At least one, and each of at least one element if there are any."""
    if block < 1:
        raise ValueError(f"block is {block}; a block has at least one element")
    return [elements[i : i + block] for i in range(0, max(len(elements), 1), block)]


def blocked(combine: Combine, elements: Sequence[Any], block: int = 8) -> list[Any]:
    """Serial inside blocks, a Kogge-Stone scan of the blocks' totals across them."""
    blocks = [serial(combine, values) for values in _blocks(elements, block)]
    totals = kogge_stone(combine, [values[-1] for values in blocks if values])
    result = blocks[0]
    for values, before, total in zip(blocks[1:], totals, totals[1:], strict=False):
        result = [*result, *[combine(before, value) for value in values[:-1]], total]
    return result


def reduce_then_scan(combine: Combine, elements: Sequence[Any], block: int = 8) -> list[Any]:
    """Each block to its total, a Kogge-Stone scan of the totals, and each block serially from what
    stands before it: before the first block the first element, so that all blocks do the same.
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
