"""The core of a wrapper: any module between two streams of words, with a table of the fields of
these words.

The module has the ports clock, reset (synchronous), in_valid, in_ready, in_data, out_valid,
out_ready and out_data. A word is taken where valid and ready are both 1: a task in, its result out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from featherlane.backends.fixed.input_limits import NO_RANGES, Ranges
from featherlane.backends.fpga.labels import NO_LABELS, WordPlace, shared_places, word_comments
from featherlane.backends.fpga.module import hashed_sources
from featherlane.backends.fpga.netlist import Field, constant_integer
from featherlane.backends.fpga.verilog import Design, check_name
from featherlane.backends.fpga.words import Entry, entries_of
from featherlane.errors import CompileError

TAG = "tag"  # a number that comes with a task and leaves with its result, set by the driver
WIDEST = 63  # bits of a field: its numbers are int64 on the host


class WordField(NamedTuple):
    """Some bits of a word, and the entries (name of an array, position in it) that they are.

    The integer, signed or not, times 2^-fraction is the number. A result may be several entries, as
    of a symmetric matrix. when: only words whose selector is this number have the field; None: all.
    """

    entries: tuple[tuple[str, int], ...]
    offset: int
    width: int
    fraction: int = 0
    signed: bool = True
    when: int | None = None

    @property
    def least(self) -> int:
        return -(1 << self.width - 1) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << self.width - self.signed) - 1


class KnownEntry(NamedTuple):
    """An entry that is a constant, which no bit carries. when: as of a field."""

    name: str
    position: int
    value: float
    when: int | None = None


class Words(NamedTuple):
    """The words of a stream: their fields, the shapes of the arrays by name, and constants.

    selector: the array, of one entry, that says which fields a word has; such fields may share
    bits. None: all words have all fields.
    """

    fields: tuple[WordField, ...]
    shapes: Mapping[str, tuple[int, ...]]
    constants: tuple[KnownEntry, ...] = ()
    selector: str | None = None

    @property
    def bits(self) -> int:
        """Bits of a word, one at least."""
        return max((field.offset + field.width for field in self.fields), default=1)

    @property
    def selected(self) -> WordField | None:
        """The field of the selector."""
        return next((f for f in self.fields if f.entries[0][0] == self.selector), None)

    def names(self, choice: int | None) -> set[str]:
        """The arrays that words have whose selector is a number, the selector among them."""
        whens = (None, choice)
        carried = {name for f in self.fields if f.when in whens for name, _ in f.entries}
        return carried | {constant.name for constant in self.constants if constant.when in whens}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Words:
        """The words that `to_json` wrote."""
        fields = tuple(
            WordField(tuple((name, n) for name, n in entries), *rest)
            for entries, *rest in data["fields"]
        )
        shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
        constants = tuple(KnownEntry(*constant) for constant in data["constants"])
        return cls(fields, shapes, constants, data["selector"])

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return {
            "fields": [list(field) for field in self.fields],
            "shapes": dict(self.shapes),
            "constants": list(self.constants),
            "selector": self.selector,
        }


class SelectedFunction(NamedTuple):
    """A function of a design: the number that the selector of several has, 0 of one, and its
    inputs.
    """

    code: int
    inputs: tuple[str, ...]


NO_FUNCTIONS: Mapping[str, SelectedFunction] = {}  # of a design whose functions have no names


def functions_of_json(data: Mapping[str, Any]) -> dict[str, SelectedFunction]:
    """The functions in the facts of a design, none in those of earlier versions."""
    listed = data.get("functions", {}).items()
    return {name: SelectedFunction(code, tuple(inputs)) for name, (code, inputs) in listed}


class StreamCore(NamedTuple):
    """A module between two streams. tasks, results: the words in and out. interval: cycles from one
    task to the next; under_way: tasks that may be inside; clock: nanoseconds. functions: by name;
    labels: what entries are, for comments; hashed: the sources as hashes know them
    (`Module.hashed`), if these are others; ranges: those that formats of inputs were assigned for,
    which drivers check and no hash knows.
    """

    name: str
    sources: Mapping[str, str]
    tasks: Words
    results: Words
    interval: int
    under_way: int
    clock: float
    functions: Mapping[str, SelectedFunction] = NO_FUNCTIONS
    labels: Mapping[Entry, str] = NO_LABELS.entries
    hashed: Mapping[str, str] | None = None
    ranges: Ranges = NO_RANGES

    def with_ranges(self, ranges: Ranges) -> StreamCore:
        """The module with the ranges of those inputs that its tasks have."""
        return self._replace(ranges={n: x for n, x in ranges.items() if n in self.tasks.shapes})

    @property
    def hashed_sources(self) -> dict[str, str]:
        """The sources as hashes know them."""
        return dict(self.sources if self.hashed is None else self.hashed)

    @property
    def comments(self) -> list[str]:
        """Lines that tell which bits of in_data and out_data are which entry; none without them."""
        if not self.labels:
            return []
        streams = (("in_data", self.tasks), ("out_data", self.results))
        return [
            line
            for signal, words in streams
            for line in word_comments(signal, self._places(words), self.labels)
        ]

    def _places(self, words: Words) -> list[WordPlace]:
        """The entries of words, with the functions that have them."""
        named = {name: function.code for name, function in self.functions.items()}
        codes: Mapping[str, int | None] = named or {"": None}
        return shared_places({
            name: [
                WordPlace(field.entries[0], field.offset, field.width)
                for field in words.fields
                if field.when in (None, code)
            ]
            for name, code in codes.items()
        })  # fmt: skip

    def verify(self) -> None:
        """Raises CompileError for fields that share bits, or are too wide for the host, ValueError
        for what is no name of a module.
        """
        check_name(self.name)
        for words in (self.tasks, self.results):
            if (words.selected is None) != all(field.when is None for field in words.fields):
                raise CompileError(f"{self.name}: a selector, and fields that it selects, or none")
            for choice in {field.when for field in words.fields}:
                _check_bits(self.name, [f for f in words.fields if f.when in (None, choice)])


def _check_bits(name: str, fields: list[WordField]) -> None:
    """Raises CompileError for fields of one word that share bits, or are too wide."""
    end = 0
    for field in sorted(fields, key=lambda field: field.offset):
        where = f"{name}: the field of {field.entries[0]}"
        if field.offset < end:
            raise CompileError(f"{where} shares bit {field.offset} with another one")
        if not 0 < field.width <= WIDEST:
            raise CompileError(f"{where} has {field.width} bits: wanted 1 to {WIDEST}")
        end = field.offset + field.width


def core_of(design: Design, labels: Mapping[Entry, str] = NO_LABELS.entries) -> StreamCore:
    """A pipeline as a module between streams. labels: what entries are."""
    graph = design.datapath.graph
    entries_at = entries_of(graph)

    def word_field(field: Field, entries: list[Entry]) -> WordField:
        width, fraction = design.datapath.format(field.node)
        return WordField(tuple(entries), field.offset, width, fraction)

    constants = tuple(
        KnownEntry(*entry, constant_integer(design.datapath, k) * design.datapath.format(k).step)
        for k, entries in entries_at.items()
        if graph.op[k] == "constant"
        for entry in entries
    )
    tasks = tuple(word_field(f, [graph.value[f.node]]) for f in design.inputs)
    results = tuple(word_field(f, entries_at[f.node]) for f in design.outputs)
    shapes = {name: out.shape for name, out in graph.outputs.items()}
    return StreamCore(
        design.name,
        design.sources,
        Words(tasks, dict(graph.inputs)),
        Words(results, shapes, constants),
        design.interval,
        design.depth,
        design.pipeline.clock,
        labels=labels,
        hashed=hashed_sources(design.modules),
    )
