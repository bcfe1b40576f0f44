"""A proof, over all runs of so many cycles from reset, that a link in slices delivers each word in
its order, unchanged and in time.

Words and pauses of both ends are free. Beside the link stands a memory of whole words: what leaves
the link is compared with what came in at the same position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from circuit_proofs.formal import formulas, prove_never
from featherlane.backends.fpga.module import Module, same

COUNT = 5  # bits of the numbers of words: more words than come in a run


class SlicedLink(NamedTuple):
    """A link: the name of its FIFO, the slices of a word, and its parameters."""

    name: str
    slices: int
    settings: dict[str, int]

    @property
    def depth(self) -> int:
        """The words that it holds."""
        return self.settings["DEPTH"]

    @property
    def latency(self) -> int:
        """The cycles after which a word is the head of an empty link."""
        return self.slices + 3

    @property
    def cycles(self) -> int:
        """Cycles in which the link is filled to its last place, and each place is used twice."""
        return 2 * self.depth * self.slices + self.latency + 3


def prove(link: SlicedLink, modules: Iterable[Module]) -> None:
    """Proves a link, whose modules are given. Raises CompileError if Yosys or z3 is missing, and
    for a run with a word that is lost, changed, out of its order or late.
    """
    text = formulas([*modules, harness(link)])
    prove_never(
        link.name,
        text,
        lambda s: ["true" if s != "s0" else "(|proof_i| s0)"],
        lambda s: (),
        lambda states: f"(or {' '.join(_wrong(s) for s in states)})",
        link.cycles,
        f"a word is not delivered as it came within {link.cycles} cycles",
    )


def _wrong(s: str) -> str:
    return f"(not (|proof_n right| {s}))"


def harness(link: SlicedLink) -> Module:
    """The module around a link. Words are put in as often as they have slices, at most, and no more
    of them than it has places; they are taken at any time.
    """
    width, depth, bits = link.settings["WIDTH"], link.depth, link.depth.bit_length()
    module = Module("proof")
    module.input("clock", "offers", "reads")
    module.input("word", bits=width)
    module.output("right")
    module.declare("started", "filled", "put", "take")
    module.declare("head", bits=width)
    module.declare("wanted", bits=width, size=1 << bits)
    module.declare("given", "taken", bits=COUNT)
    module.declare("since", "late", bits=COUNT)
    module.process("initial", "started = 0;")
    module.wire("under_way", COUNT, "given - taken")
    module.assign("put", f"started && offers && since == 0 && under_way != {depth}")
    module.assign("take", "started && reads && filled")
    ports = same(["clock", "put", "word", "take", "head", "filled"])
    module.instance(link.name, "device", {**ports, "reset": "!started"}, link.settings)
    module.assign("right", " && ".join(_claims(link, bits)).join(["!started || (", ")"]))
    module.clocked(f"""
        started <= 1;
        given <= started ? given + put : '0;
        taken <= started ? taken + take : '0;
        since <= !started ? '0 : put ? {COUNT}'d{link.slices - 1} : since - (since != 0);
        late <= !started || filled || under_way == 0 ? '0 : late + 1;
        if (put) wanted[given[{bits - 1}:0]] <= word;
    """)
    return module


def _claims(link: SlicedLink, bits: int) -> Iterator[str]:
    yield "(!filled || under_way != 0)"
    yield f"(!filled || head == wanted[taken[{bits - 1}:0]])"
    yield f"late < {link.latency}"
