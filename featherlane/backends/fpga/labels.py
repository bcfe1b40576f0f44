"""The names that users know for what a graph numbers: entries of inputs and results, and the parts
of an algorithm that operations are tagged with. They are data, which stand in the emitted text as
comments and in the names of signals; what is computed does not depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from featherlane.program.graph import Graph

Entry = tuple[str, int]  # of an input or output, by its name: a position in C order
LONGEST_SHOWN, LONGEST_NAME = 60, 24  # letters of a name in a comment, and in a signal's name
MOST_LISTED = 40  # entries of an array that have a line each


class PlaceLabel(NamedTuple):
    """The place of a part of an algorithm. text: for the comment above a module; short: for its
    signals; word: for the name of its instance.
    """

    text: str
    short: str
    word: str


class PartLabel(NamedTuple):
    """A part of an algorithm, and where it computes: in several places, one after the other, if it
    is time-multiplexed. quantities: what it computes there.
    """

    title: str
    places: tuple[PlaceLabel, ...]
    quantities: str = ""

    def __str__(self) -> str:
        return f"{self.title}, {joined(place.text for place in self.places)}"

    @property
    def short(self) -> str:
        """The places in few words."""
        return f"from {joined(place.short for place in self.places)}"

    @property
    def word(self) -> str:
        """The end of a name; empty if there are several places."""
        return self.places[0].word if len(self.places) == 1 else ""


class Labels(NamedTuple):
    """Texts for comments, and words for names.

    entries: what an entry of an input or an output is; words: what its signal is called behind its
    number; parts: what an operation with a tag (`str(tag)`) is part of.
    """

    entries: Mapping[Entry, str]
    words: Mapping[Entry, str]
    parts: Mapping[str, PartLabel]

    def part(self, tag: object) -> PartLabel | None:
        """The part that operations with a tag belong to, if it has a label."""
        return self.parts.get(str(tag))

    def node(self, graph: Graph, k: int) -> str:
        """The label of an input, or the place where a node is computed."""
        if graph.op[k] == "input" and graph.value[k] in self.entries:
            return self.entries[graph.value[k]]
        part = self.part(graph.tag[k])
        return part.short if part else ""

    def results(self, graph: Graph) -> dict[int, str]:
        """The labels of nodes that are results, each of the first entry that it is."""
        labels = dict[int, str]()
        for name, out in graph.outputs.items():
            for position, k in enumerate(out.nodes):
                if text := self.entries.get((name, position)):
                    labels.setdefault(k, text)
        return labels


NO_LABELS = Labels({}, {}, {})


def of_slots(
    labels: Labels, whole: Graph, graph: Graph, nodes: Mapping[int, Sequence[int]]
) -> Labels:
    """Returns the labels of a graph that computes several parts of a whole graph, one after the
    other. nodes: of the whole, that a node is in each slot.
    """
    every = labels.results(whole)
    entries, parts = dict[Entry, str](), dict[str, PartLabel]()
    for k, sources in nodes.items():
        texts = [every.get(n) or labels.node(whole, n) for n in sources]
        if graph.op[k] == "input":
            entries[graph.value[k]] = joined(texts)
        else:
            for part in filter(None, (labels.part(whole.tag[n]) for n in sources)):
                old = parts.get(tag := str(graph.tag[k]), part)
                places = tuple(dict.fromkeys(old.places + part.places))
                parts[tag] = part._replace(places=places)
    for name, out in graph.outputs.items():
        for position, k in enumerate(out.nodes):
            entries[name, position] = joined(every.get(n, "") for n in nodes.get(k, ()))
    return Labels(entries, {}, parts)


def joined(texts: Iterable[str]) -> str:
    """Different texts one after the other, of the slots of a unit."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def shown(name: str) -> str:
    """A name in a comment: one word, so that no tool takes a part of it for a command."""
    plain = "".join(c if c.isprintable() and not c.isspace() else "_" for c in name)
    cut = plain if len(plain) <= LONGEST_SHOWN else f"{plain[: LONGEST_SHOWN - 3]}..."
    return f'"{cut}"'


def word(name: str) -> str:
    """The letters, digits and _ of a name, as the end of a name in SystemVerilog."""
    parts = re.findall(r"\w+", name, flags=re.ASCII)
    return "_".join(parts).strip("_")[:LONGEST_NAME].rstrip("_")


# Words of streams


class WordPlace(NamedTuple):
    """Some bits of a word, and the entry that lies there. functions: those whose words have it;
    none if all have.
    """

    entry: Entry
    offset: int
    width: int
    functions: tuple[str, ...] = ()


def shared_places(places: Mapping[str, Iterable[WordPlace]]) -> list[WordPlace]:
    """Returns the places of the words of several functions, each once. places: of each function."""
    functions = dict[WordPlace, list[str]]()
    for function, listed in places.items():
        for place in listed:
            functions.setdefault(place, []).append(function)
    return [
        place._replace(functions=() if len(names) == len(places) else tuple(names))
        for place, names in functions.items()
    ]


def word_comments(
    signal: str, places: Iterable[WordPlace], entries: Mapping[Entry, str]
) -> list[str]:
    """Returns lines that tell which bits of a word are which entry; the many of a matrix have one
    line. entries: what each is.
    """
    lines = list[str]()
    for (name, functions), group in groupby(places, lambda p: (p.entry[0], p.functions)):
        several = [*group]
        of = f", {' and '.join(functions)}" if functions else ""
        texts = [entries.get(p.entry, f"{name}[{p.entry[1]}]") for p in several]
        if len(several) > MOST_LISTED:
            bits = f"{signal}[{several[-1].offset + several[-1].width - 1}:{several[0].offset}]"
            lines.append(f"{bits}{of}: {len(several)} entries, {texts[0]} to {texts[-1]}")
        else:
            for place, text in zip(several, texts, strict=True):
                bits = f"{signal}[{place.offset + place.width - 1}:{place.offset}]"
                lines.append(f"{bits}{of}: {text}")
    return lines
