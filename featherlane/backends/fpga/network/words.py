"""Words of a network's streams: where the code, the tag and the numbers of each function lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from featherlane.backends.fpga import words
from featherlane.backends.fpga.network.structure import DECODE, Channel, Network, Value
from featherlane.backends.fpga.words import Entry

Array = Any


class WordEntry(NamedTuple):
    """A number in a word: what it is an entry of, its first bit, its width and its fraction."""

    entry: Entry
    offset: int
    width: int
    fraction: int


class WordLayout(NamedTuple):
    """The words of a network. code, tag: first bits and widths, of inputs and results alike.
    inputs, results: the numbers of each function, by its name.
    """

    code: tuple[int, int]
    tag: tuple[int, int]
    inputs: Mapping[str, tuple[WordEntry, ...]]
    results: Mapping[str, tuple[WordEntry, ...]]

    @property
    def input_bits(self) -> int:
        """Bits of a word of inputs."""
        return self._bits(self.inputs)

    @property
    def result_bits(self) -> int:
        """Bits of a word of results."""
        return self._bits(self.results)

    def _bits(self, places: Mapping[str, tuple[WordEntry, ...]]) -> int:
        ends = [place.offset + place.width for entries in places.values() for place in entries]
        return max([*ends, sum(self.tag)])


def layout(network: Network) -> WordLayout:
    """Returns where everything lies in the words of a network: the code, the tag, the numbers.

    Inputs that no function has both of share their bits; results of all functions begin at one bit.
    """
    code = 0, network.code_bits
    tag = network.code_bits, network.tag_bits
    starts = offsets(network, sum(tag))
    inputs: dict[str, tuple[WordEntry, ...]] = {}
    results: dict[str, tuple[WordEntry, ...]] = {}
    for name, instruction in network.codes.items():
        inputs[name] = tuple(
            place
            for port, links in decoded(network).items()
            if any(instruction in link.puts for link in links)
            for place in _packed(links[0].values, starts[port])
        )
    for instruction, names in network.results.items():
        entries = list[WordEntry]()
        for link in (network.links[name] for name in names):
            start = entries[-1].offset + entries[-1].width if entries else sum(tag)
            entries += _packed(link.values, start)
        results[network.function_of(instruction)] = tuple(entries)
    return WordLayout(code, tag, inputs, results)


def decoded(network: Network) -> dict[str, list[Channel]]:
    """The links that take each part of a word of inputs."""
    channels: dict[str, list[Channel]] = {}
    for link in network.out_of(DECODE):
        channels.setdefault(link.source.port, []).append(link)
    return channels


def offsets(network: Network, first: int) -> dict[str, int]:
    """The first bit of each part of a word of inputs, the parts from bit `first` upwards."""
    starts: dict[str, int] = {}
    used: dict[str, frozenset[int]] = {}
    for name, links in decoded(network).items():
        used[name] = frozenset().union(*(link.puts for link in links))
        behind = [
            starts[other] + decoded(network)[other][0].bits
            for other in starts
            if used[other] & used[name]
        ]
        starts[name] = max(behind, default=first)
    return starts


def _packed(values: Sequence[Value], offset: int) -> list[WordEntry]:
    entries = []
    for entry, (width, fraction) in values:
        entries.append(WordEntry(entry, offset, width, fraction))
        offset += width
    return entries


def packed(
    network: Network,
    functions: Sequence[str],
    tags: Array,
    values: Mapping[str, Mapping[str, Array]],
    results: bool = False,
) -> Array:
    """Words as bytes, a row for each task. functions: of each task; values: by function, the
    integers of its inputs (tasks of the function, *shape) by name, in the order of the tasks;
    results: whether they are words of results. Numbers of a word that no value has are 0.
    """
    plan, named = layout(network), np.array(functions)
    places_of, bits = (
        (plan.results, plan.result_bits) if results else (plan.inputs, plan.input_bits)
    )
    packed_words = np.zeros((len(named), -(-bits // 32) * 4), np.uint8)
    for name, arrays in values.items():
        rows = np.flatnonzero(named == name)
        places = [place for place in places_of[name] if place.entry[0] in arrays]
        head = [np.full(len(rows), network.codes[name]), np.asarray(tags)[rows]]
        numbers = words.gathered([place.entry for place in places], arrays)
        fields = [plan.code[::-1], plan.tag[::-1], *[(p.width, p.offset) for p in places]]
        part = words.packed(np.column_stack([*head, numbers]), fields)
        packed_words[rows, : part.shape[1]] = part
    return packed_words


class Unpacked(NamedTuple):
    """The words of results of a function: their rows among all words, their tags, and the values
    of their entries (tasks, entries).
    """

    rows: Array
    tags: Array
    values: Array


def unpacked(network: Network, results: Array) -> dict[str, Unpacked]:
    """The words of results by function."""
    plan = layout(network)
    head = words.unpacked(results, [(sum(plan.tag) + 1, 0)])[:, 0] & (1 << sum(plan.tag)) - 1
    codes, tags = head & (1 << network.code_bits) - 1, head >> network.code_bits
    unpacked_words = {}
    for name, places in plan.results.items():
        rows = np.flatnonzero(codes == network.codes[name])
        values = words.unpacked(results[rows], [(p.width, p.offset) for p in places])
        unpacked_words[name] = Unpacked(rows, tags[rows], values)
    return unpacked_words


def moved(network: Network) -> dict[str, tuple[int, int]]:
    """The numbers of a task and its results, and their bits together, by function."""
    plan, ends = layout(network), dict[str, tuple[int, int]]()
    for name in network.codes:
        places = [*plan.inputs[name], *plan.results[name]]
        ends[name] = len(places), sum(place.width for place in places)
    return ends
