"""The structure of a network: stations, channels between them, and their ports.

A task is a word of inputs with the code of a function. It passes stations, each a pipeline that
takes a new task every `interval` cycles and never waits; what a station gives lies in links, FIFOs,
until the next station takes it. A micro-instruction, a small number that travels with a task, says
which links a station takes from and puts into: at first it is the function's code, and a link may
change it, where a task passes a station once more.

No station needs to stop, because credits bound the tasks under way to `depth`, and each link has
place for so many: nothing overflows, and nothing waits for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.labels import NO_LABELS, Labels
from featherlane.backends.fpga.verilog import Design
from featherlane.backends.fpga.words import Entry
from featherlane.errors import CompileError

DECODE, ENCODE = "decode", "encode"  # the ends of the network: where tasks come in, and go out


class Value(NamedTuple):
    """A number that crosses: what it is an entry of, and its format."""

    entry: Entry
    form: Format


class Port(NamedTuple):
    """Numbers that enter or leave a station together.

    cycle: of an input, the cycle of the task in which they must be there, a multiple of the
    interval; of an output, the cycle in which they are. nodes: those of the station's graph.
    """

    name: str
    values: tuple[Value, ...]
    nodes: tuple[int, ...]
    cycle: int

    @property
    def bits(self) -> int:
        """The bits of its word."""
        return sum(value.form.width for value in self.values)


@dataclass(frozen=True, eq=False)
class Station:
    """A pipeline with its ports.

    design: its datapath, without a stream. entries: the links that bring tasks, by priority: a task
    is taken with the first one that has a task whose other inputs are there too. offset: its phase
    in the cycle in which the first station has phase 0; tasks are taken in the last phase.
    """

    name: str
    design: Design
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    entries: tuple[str, ...]
    offset: int = 0

    @property
    def interval(self) -> int:
        """Cycles from one task to the next."""
        return self.design.pipeline.interval

    @property
    def latency(self) -> int:
        """The cycle in which the last output is there."""
        return max((port.cycle for port in self.outputs.values()), default=0)


class Slicing(NamedTuple):
    """Words of links in large memories: each in `steps` slices, a power of two, that are
    written and read one a cycle. chunk: bits that stay together, in one memory, when words are cut.
    """

    steps: int
    chunk: int

    @property
    def cycles(self) -> int:
        """Cycles from the one in which a word is taken to the one in which a register has it."""
        return self.steps + 2

    def columns(self, bits: int) -> int:
        """The chunks of a slice of words of so many bits."""
        return -(-bits // (self.steps * self.chunk))

    def slice_bits(self, bits: int) -> int:
        """The bits of a slice of words of so many bits."""
        return self.columns(bits) * self.chunk


class End(NamedTuple):
    """A port of a station; of DECODE or ENCODE, a part of a task's words."""

    station: str
    port: str


@dataclass(frozen=True, eq=False)
class Channel:
    """A link from an output to an input, through a FIFO. A number that the input's format cannot
    hold becomes the nearest one that it can; bits below its last place are cut.

    puts, takes: the micro-instructions with which tasks put a word and take one. leads: whether the
    micro-instruction and the tag of a task travel here; an entry of a station, or of ENCODE, leads.
    becomes: micro-instructions that change on the way. depth: places; 0 for wires from DECODE,
    which a station takes in the cycle in which the task comes. sliced: whether words lie in large
    memories, in the slices of the network, in the formats as they are taken.
    """

    name: str
    source: End
    target: End
    values: tuple[Value, ...]  # as they are put
    wanted: tuple[Format, ...]  # formats as they are taken
    puts: frozenset[int]
    takes: frozenset[int]
    leads: bool
    depth: int
    becomes: Mapping[int, int] = field(default_factory=dict)
    sliced: bool = False

    @property
    def bits(self) -> int:
        """The bits of its word, as it is put, without what leads."""
        return sum(value.form.width for value in self.values)

    @property
    def wanted_bits(self) -> int:
        """The bits of its word as it is taken."""
        return sum(form.width for form in self.wanted)


@dataclass(frozen=True, eq=False)
class Network:
    """Stations and the links between them.

    codes: the micro-instruction with which a task of each function begins. results: for each
    micro-instruction that leaves, the links whose words make its result, the first one leading.
    tag_bits: those of a number that users give with a task and find in its result. depth: tasks
    that may be under way. labels: for comments. slicing: of the links that are sliced.
    """

    name: str
    stations: Mapping[str, Station]
    links: Mapping[str, Channel]
    codes: Mapping[str, int]
    results: Mapping[int, tuple[str, ...]]
    depth: int
    tag_bits: int = 16
    labels: Labels = NO_LABELS
    slicing: Slicing | None = None

    @property
    def first(self) -> Station:
        """The station that takes tasks as they come."""
        return next(iter(self.stations.values()))

    @property
    def interval(self) -> int:
        """Cycles from one task to the next."""
        return self.first.interval

    @property
    def clock(self) -> float:
        """Nanoseconds a cycle."""
        return self.first.design.pipeline.clock

    @property
    def code_bits(self) -> int:
        """The bits of a micro-instruction."""
        every = {*self.codes.values(), *self.results}
        return max(max(every).bit_length(), 1)

    @property
    def leading(self) -> tuple[str, ...]:
        """The links that bring results to ENCODE, in the order of the round robin."""
        return tuple(dict.fromkeys(names[0] for names in self.results.values()))

    @property
    def slices(self) -> Slicing:
        """The slicing of links that are sliced."""
        assert self.slicing, f"{self.name} has no links that are sliced"
        return self.slicing

    @property
    def slices_results(self) -> bool:
        """Whether the words of results are put together slice by slice."""
        return any(link.sliced for link in self.into(ENCODE))

    def late(self, link: Channel) -> int:
        """The cycle of a task in which its target takes a word; 0 if that is with the task."""
        if link.target.station == ENCODE:
            return 0
        return self.stations[link.target.station].inputs[link.target.port].cycle

    def gives_slices(self, link: Channel) -> bool:
        """Whether a link gives its words in slices to a register behind it, which several links
        share: that of results, or of an input that is taken late.
        """
        return link.sliced and (link.target.station == ENCODE or self.late(link) > 0)

    def read_ahead(self, station: str, port: str) -> int:
        """The cycles before that of an input in which its word is taken from links in slices; 0 for
        other links.
        """
        links = [link for link in self.into(station) if link.target.port == port]
        return self.slices.cycles if any(map(self.gives_slices, links)) else 0

    def beside(self, link: Channel) -> list[Channel]:
        """The links, this one among them, that are sliced together, since their words share a
        register.
        """
        others = self.into(link.target.station)
        if link.target.station == ENCODE:
            return others
        if self.late(link):
            return [other for other in others if other.target == link.target]
        return [link]

    def padding(self, link: Channel) -> int:
        """The zeros in front of a word that is sliced, up to its place in the result."""
        return self.result_offset(link) % (self.slices.steps * self.slices.chunk)

    def result_offset(self, link: Channel) -> int:
        """The bits of a result in front of those of a link; 0 for links to stations."""
        for names in self.results.values():
            if link.name in names:
                before = names[: names.index(link.name)]
                return sum(self.links[name].bits for name in before)
        return 0

    def into(self, station: str) -> list[Channel]:
        """The links that a station takes from."""
        return [link for link in self.links.values() if link.target.station == station]

    def out_of(self, station: str) -> list[Channel]:
        """The links that a station puts into."""
        return [link for link in self.links.values() if link.source.station == station]

    def function_of(self, instruction: int) -> str:
        """The function whose results a micro-instruction gives, by name."""
        first = {link.becomes.get(i): i for link in self.links.values() for i in link.becomes}
        code = first.get(instruction, instruction)
        return next(name for name, number in self.codes.items() if number == code)

    def verify(self) -> None:
        """Raises CompileError where links and ports do not fit together, where two links bring one
        input of a task, or an entry does not lead.
        """
        for link in self.links.values():
            self._check_link(link)
            self._check_slices(link)
        for station in self.stations.values():
            _check_inputs(station, self.into(station.name))
            if station.interval != self.interval:
                raise CompileError(f"{station.name} has interval {station.interval}, others not")
            for name in station.entries:
                if not self.links[name].leads:
                    raise CompileError(f"link {name} is an entry of {station.name}, but leads not")

    def _check_link(self, link: Channel) -> None:
        if len(link.values) != len(link.wanted):
            raise CompileError(
                f"link {link.name} has {len(link.values)} numbers, its target {len(link.wanted)}"
            )
        for end, there in ((link.source, DECODE), (link.target, ENCODE)):
            if end.station == there:
                continue
            station = self.stations[end.station]
            port = (station.outputs if end is link.source else station.inputs)[end.port]
            if len(port.values) != len(link.values):
                raise CompileError(f"link {link.name} does not fit to port {port.name}")

    def _check_slices(self, link: Channel) -> None:
        """Raises CompileError for a link whose words would come too late in slices, or that shares
        a register with one that is not sliced.
        """
        if not link.sliced:
            return
        late = self.late(link)
        if self.interval < self.slices.cycles:
            raise CompileError(f"link {link.name}: {self.slices.steps} slices outlast the interval")
        if late and late <= self.slices.cycles:
            raise CompileError(f"link {link.name} is sliced, but its words are taken early")
        if not all(other.sliced for other in self.beside(link)):
            raise CompileError(f"link {link.name} is sliced, others to its target are not")


def _check_inputs(station: Station, links: Iterable[Channel]) -> None:
    """Raises CompileError for an input that two links bring, or that comes in a wrong cycle."""
    brought: dict[tuple[str, int], str] = {}
    for link in links:
        port = station.inputs[link.target.port]
        if port.cycle % station.interval:
            raise CompileError(f"input {port.name} of {station.name} comes in cycle {port.cycle}")
        if link.depth == 0 and port.cycle:
            raise CompileError(f"link {link.name} has no places, but its words are taken late")
        for instruction in link.takes:
            other = brought.setdefault((port.name, instruction), link.name)
            if other != link.name:
                raise CompileError(
                    f"links {other} and {link.name} both bring {port.name} of {station.name}"
                )
