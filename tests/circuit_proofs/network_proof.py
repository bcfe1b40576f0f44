"""A proof that a network loses, repeats and reorders no task, whatever pauses its streams, and that
none is kept waiting for ever.

Every number in a word is the number of its task among those of its function, and so is its tag.
Datapaths are any circuits that give the numbers of a task in the cycles in which its results are
due; that its inputs were those of the task is proved, from FIFO to FIFO. Yosys turns the sources
into formulas, and z3 proves by induction over cycles:

- credits and tasks under way are `depth` together, and no FIFO has more words than places;
- the tasks of each function are on their way in the order in which they came, none missing: the tag
  of each is that of the last result and the tasks of the function ahead of it;
- words that wait for a task in other FIFOs, such as M^-1 for a second pass, are its own;
- results leave in that order, with the tag and the code of their task, and all numbers of it, and
  stay until they are taken;
- a link that leads to a station is taken from at least once in an interval, as long as it has a
  word, and so is a word that is offered while there is a credit, unless a second pass is;
- a result leaves whenever there is one and room for it, and a result that comes next in its link
  waits for no more than one of each other link: the links before it in turn are fewer after each.

So each task gets out, if results are taken: those before it on its way are fewer than credits.
Stations hold it for so many cycles; before a station it waits for at most `depth` intervals; before
the end, for at most `depth` results of each link; before the first station, for at most `depth`
second passes, since a task that is under way comes back once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from circuit_proofs.changed import with_attribute
from circuit_proofs.formal import formulas, prove_by_induction, prove_never
from featherlane.backends.fpga.module import Module, named, same
from featherlane.backends.fpga.network import links, words
from featherlane.backends.fpga.network.structure import DECODE, ENCODE, Channel, Network, Station
from featherlane.backends.fpga.network.verilog import circuit
from featherlane.backends.fpga.stream import datapath
from featherlane.errors import CompileError

COUNT = 8  # bits of numbers of tasks in all places


def prove(network: Network, modules: Mapping[str, Module] | None = None) -> None:
    """Proves a network whose numbers and tags have one width. modules: by default as `circuit`
    makes them.

    Raises CompileError if Yosys or z3 is missing, for a network with numbers of other widths, and
    for a cycle in which something is wrong.
    """
    _check(network)
    checked = dict(circuit(network).modules if modules is None else modules)
    for station in network.stations.values():
        inside = f"{station.design.name}_"
        checked = {name: m for name, m in checked.items() if not name.startswith(inside)}
        checked |= named(_any_datapath(station))
    # Nobody asks a FIFO whose words are taken late whether it is empty: its count would be removed
    fifo = f"{network.name}_link"
    checked[fifo] = with_attribute(checked[fifo], "count", "keep")
    text = formulas([*checked.values(), harness(network)])
    claims = lambda s: _invariants(_Claims(network, s))
    given = lambda s: _Claims(network, s).datapaths()
    prove_by_induction(network.name, text, claims, 1, given)
    for never, cycles, message in (
        (_waits_for_station, network.interval, "a task may wait longer than an interval"),
        (_waits_for_turn, 2, "a result may wait for more than one of each other link"),
    ):
        run = lambda states, never=never: never([_Claims(network, s) for s in states])
        prove_never(network.name, text, claims, given, run, cycles, message)


def _check(network: Network) -> None:
    widths = {v.form.width for link in network.links.values() for v in link.values}
    if widths - {network.tag_bits}:
        bits = network.tag_bits
        raise CompileError(f"numbers of {network.name} have {widths} bits: wanted {bits}, as tags")
    if not 2 <= network.depth < 1 << network.tag_bits - 1:
        most = (1 << network.tag_bits - 1) - 1
        raise CompileError(f"depth is {network.depth}: wanted 2 to {most}, for tags of this width")


def _any_datapath(station: Station) -> Module:
    """A datapath with any results. What is not read would be removed: they depend on all inputs."""
    design, phase_bits = station.design, max((station.interval - 1).bit_length(), 1)
    module = datapath(design.netlist, phase_bits, "Any results")
    module.declare("any", bits=design.output_bits, attribute="anyseq")
    module.assign("results", f"any ^ {{{design.output_bits}{{^given}}}}")
    return module


def harness(network: Network) -> Module:
    """The module around a network that counts the tasks of each function at both ends."""
    plan, bits, tag = words.layout(network), network.code_bits, network.tag_bits
    codes = [*network.codes.values()]
    module = Module("proof")
    module.input("clock", "in_valid", "out_ready")
    module.input("code", bits=bits)
    module.output("started", "in_ready", "out_valid", "offered")
    module.output("out_data", "before", bits=plan.result_bits)
    module.output(*(f"{name}_{i}" for name in ("accepted", "emitted") for i in codes), bits=tag)
    module.process("initial", "started = 0;")
    module.declare("number", bits=tag)
    test = " || ".join(f"code == {bits}'d{i}" for i in codes)
    module.wire("known", bits, f"({test}) ? code : {bits}'d{codes[0]}")
    module.wire("leaving", bits, f"out_data[{bits - 1}:0]")
    numbers = (f"if (known == {bits}'d{i}) number = accepted_{i};" for i in codes)
    module.process("always_comb", "number = '0;", *numbers)
    numbers_in = (plan.input_bits - bits) // tag
    ports = ("in_valid", "in_ready", "out_valid", "out_ready", "out_data")
    module.instance(network.name, "device", {
        "clock": "clock", "reset": "!started", **same(ports),
        "in_data": f"{{{{{numbers_in}{{number}}}}, code}}",
    })  # fmt: skip
    module.clocked("started <= 1;", "offered <= started && out_valid && !out_ready;",
                 "before <= out_data;", *_counts(codes, bits))  # fmt: skip
    return module


def _counts(codes: Iterable[int], bits: int) -> Iterator[str]:
    """The counts of the tasks of each function that go in, and whose results come out."""
    for i in codes:
        goes = f"in_valid && in_ready && known == {bits}'d{i}"
        leaves = f"out_valid && out_ready && leaving == {bits}'d{i}"
        yield f"accepted_{i} <= started ? accepted_{i} + ({goes}) : '0;"
        yield f"emitted_{i} <= started ? emitted_{i} + ({leaves}) : '0;"


# The way of a task


class Stay(NamedTuple):
    """A task is in a station up to the cycle in which it is put into the next link."""

    station: str
    instruction: int
    last: int


class Wait(NamedTuple):
    """A task waits in a link."""

    link: str
    instruction: int


class TaskPosition(NamedTuple):
    """A place that tasks pass: a cycle of a station, or a position in a link, 0 for its head."""

    is_stage: bool
    name: str
    position: int


Token = tuple[TaskPosition, frozenset[int]]  # a task of one of some micro-instructions


def way(network: Network, code: int) -> list[Stay | Wait]:
    """Returns where a task goes: stations, and the links that lead it from one to the next."""
    parts, station, instruction = list[Stay | Wait](), network.first, code
    while True:
        link = next(x for x in network.out_of(station.name) if x.leads and instruction in x.puts)
        last = station.outputs[link.source.port].cycle
        parts.append(Stay(station.name, instruction, last))
        instruction = link.becomes.get(instruction, instruction)
        parts.append(Wait(link.name, instruction))
        if link.target.station == ENCODE:
            return parts
        station = network.stations[link.target.station]


def _tokens(
    network: Network, part: Stay | Wait, first: int = 0, end: int | None = None
) -> list[Token]:
    """Returns the places of a part of a way, that of the oldest task first. first, end: cycles of a
    station.
    """
    instructions = frozenset([part.instruction])
    if isinstance(part, Wait):
        depth = network.links[part.link].depth
        return [(TaskPosition(False, part.link, k), instructions) for k in range(depth)]
    end = part.last + 1 if end is None else end
    return [
        (TaskPosition(True, part.station, n), instructions) for n in reversed(range(first, end))
    ]


class Beside(NamedTuple):
    """Tasks of which a link that does not lead has a word, or will have: the oldest first. ghosts:
    cycles of the source in which a task, which a link leads already, has not put its word yet.
    """

    tokens: list[Token]
    ghosts: list[int]
    lead: int  # the cycle in which the task is led away


def beside(network: Network, link: Channel) -> Beside:
    """Returns the tasks whose words lie in a link that does not lead."""
    besides = [
        _beside(network, link, code)
        for name, code in network.codes.items()
        if any(_puts(link, part, n) for n, part in enumerate(way(network, code)))
    ]
    if len({(tuple(place for place, _ in each.tokens), *each.ghosts) for each in besides}) != 1:
        raise CompileError(f"words in link {link.name} go with tasks on several ways")
    merged = [
        (same[0][0], frozenset().union(*(instructions for _, instructions in same)))
        for same in zip(*(each.tokens for each in besides), strict=True)
    ]
    return besides[0]._replace(tokens=merged)


def _puts(link: Channel, part: Stay | Wait, n: int) -> bool:
    """Whether a task puts a word into a link where it is in a part of its way."""
    here = n == 0 if link.source.station == DECODE else part[0] == link.source.station
    return isinstance(part, Stay) and here and part.instruction in link.puts


def _beside(network: Network, link: Channel, code: int) -> Beside:
    parts = way(network, code)
    begin = next(n for n, part in enumerate(parts) if _puts(link, part, n))
    source = parts[begin]
    assert isinstance(source, Stay), "stations put words"
    put, tokens = -1, list[Token]()
    if link.source.station != DECODE:
        put = network.stations[source.station].outputs[link.source.port].cycle
        tokens, begin = _tokens(network, source, put + 1), begin + 1
    for part in parts[begin:]:
        is_end = isinstance(part, Stay) and part.station == link.target.station
        if is_end and part.instruction in link.takes:
            late = network.stations[link.target.station].inputs[link.target.port].cycle
            tokens = [*_tokens(network, part, 0, late), *tokens]
            break
        tokens = [*_tokens(network, part), *tokens]
    return Beside(tokens, [*range(put, source.last, -1)], source.last)


# Formulas


def _invariants(of: _Claims) -> Iterator[str]:
    """The invariants of each cycle after the reset."""
    for claim in of.claims():
        yield f"(=> {of.read('started')} {claim})"


class _Claims:
    """Formulas of a state of the harness."""

    def __init__(self, network: Network, state: str) -> None:
        self.network, self.state = network, state
        self.bits, self.code_bits = network.tag_bits, network.code_bits
        self.lead = self.bits + self.code_bits
        self.ways = {code: way(network, code) for code in network.codes.values()}

    # Signals

    def read(self, name: str) -> str:
        return f"(|proof_n {name}| {self.state})"

    def vector(self, name: str, bits: int) -> str:
        """A signal as bits: one bit is a condition in these formulas."""
        return self.read(name) if bits > 1 else f"(ite {self.read(name)} #b1 #b0)"

    def fifo(self, link: str) -> str:
        """The module of a link."""
        inside = "feedback." if links.is_fed_back(self.network, self.network.links[link]) else ""
        return f"device.{inside}link_{link}"

    def counter(self, link: str, name: str) -> str:
        bits = self.network.links[link].depth.bit_length()
        return f"((_ zero_extend {COUNT - bits}) {self.vector(f'{self.fifo(link)}.{name}', bits)})"

    def word(self, link: str, k: str | int) -> str:
        """The word in a position of a FIFO, counted from its head."""
        depth = self.network.links[link].depth
        last = f"{self.fifo(link)}.places"
        text = self.read(f"{last}[{depth - 1}]")
        place = _add(self.counter(link, "first"), k if isinstance(k, str) else _number(k))
        place = f"(ite (bvult {place} {_number(depth)}) {place} (bvsub {place} {_number(depth)}))"
        for n in reversed(range(depth - 1)):
            text = f"(ite (= {place} {_number(n)}) {self.read(f'{last}[{n}]')} {text})"
        return text

    def stages(self, station: str) -> int:
        """The cycles in which a station knows its task."""
        of_station = self.network.stations[station]
        late = [port.cycle - 1 for port in of_station.inputs.values() if port.cycle]
        return max([0, *(port.cycle for port in of_station.outputs.values()), *late]) + 1

    def is_filled(self, place: TaskPosition) -> str:
        """Whether there is a task in a place."""
        if not place.is_stage:
            return f"(bvult {_number(place.position)} {self.counter(place.name, 'count')})"
        valid = self.vector(f"device.{place.name}.valid", self.stages(place.name))
        return f"(= {_extract(valid, place.position, 1)} #b1)"

    def task(self, place: TaskPosition) -> str:
        """The tag and the micro-instruction in a place."""
        if place.is_stage:
            tasks = self.read(f"device.{place.name}.tasks")
            return _extract(tasks, place.position * self.lead, self.lead)
        bits = self.network.links[place.name].bits
        return _extract(self.word(place.name, place.position), bits, self.lead)

    def tag(self, place: TaskPosition) -> str:
        return _extract(self.task(place), self.code_bits, self.bits)

    def is_one(self, instruction: str, wanted: frozenset[int] | set[int]) -> str:
        return _any(f"(= {instruction} {_number(i, self.code_bits)})" for i in sorted(wanted))

    def holds(self, token: Token) -> str:
        """Whether a task of these micro-instructions is in a place."""
        place, instructions = token
        here = self.is_one(_extract(self.task(place), 0, self.code_bits), instructions)
        return f"(and {self.is_filled(place)} {here})"

    def repeated(self, number: str, bits: int) -> str:
        """A word in which all numbers are one."""
        return number if bits == self.bits else f"((_ repeat {bits // self.bits}) {number})"

    # Claims

    def claims(self) -> Iterator[str]:
        """The claims that hold in each state."""
        yield from self._of_tasks()
        for link in self.network.links.values():
            if link.depth:
                yield from self._of_fifo(link)
                yield from self._of_leading(link) if link.leads else self._of_beside(link)
        for station in self.network.stations.values():
            yield from self._of_station(station)
        yield from self._of_result()
        yield from self._of_turns()

    def tokens(self, code: int) -> list[Token]:
        """The places of the tasks of a function, without the word of results: the oldest first."""
        return [x for part in reversed(self.ways[code]) for x in _tokens(self.network, part)]

    def leaves(self, code: int) -> str:
        """Whether the word of results is of a function."""
        out = _extract(self.read("out_data"), 0, self.code_bits)
        return f"(and {self.read('out_valid')} (= {out} {_number(code, self.code_bits)}))"

    def _of_tasks(self) -> Iterator[str]:
        under_way = _number(0)
        for code in self.network.codes.values():
            emitted, ahead = self.read(f"emitted_{code}"), self._one(self.leaves(code), self.bits)
            for token in self.tokens(code):
                here = self.holds(token)
                yield f"(=> {here} (= {self.tag(token[0])} {_add(emitted, ahead)}))"
                ahead = _add(ahead, self._one(here, self.bits))
                under_way = _add(under_way, self._one(here, COUNT))
            yield f"(= {self.read(f'accepted_{code}')} {_add(emitted, ahead)})"
        bits = self.network.depth.bit_length()
        credits = self.vector("device.schedule.credits", bits)
        credits = f"((_ zero_extend {COUNT - bits}) {credits})"
        yield f"(= {_add(credits, under_way)} {_number(self.network.depth)})"
        yield f"(bvule {credits} {_number(self.network.depth)})"
        yield f"(bvule {under_way} {_number(self.network.depth)})"

    def _one(self, condition: str, bits: int) -> str:
        return f"(ite {condition} {_number(1, bits)} {_number(0, bits)})"

    def _of_fifo(self, link: Channel) -> Iterator[str]:
        """A FIFO keeps its pointers, is never read while it is empty, and never overflows."""
        depth = _number(link.depth)
        count, first, last = (self.counter(link.name, x) for x in ("count", "first", "last"))
        yield f"(bvule {count} {depth})"
        yield f"(bvult {first} {depth})"
        yield f"(bvult {last} {depth})"
        end = _add(first, count)
        yield f"(= {last} (ite (bvult {end} {depth}) {end} (bvsub {end} {depth})))"
        put, take = (self.read(f"{self.fifo(link.name)}.{x}") for x in ("put", "take"))
        yield f"(=> {take} (not (= {count} {_number(0)})))"
        yield f"(=> {put} (or {take} (bvult {count} {depth})))"

    def _of_leading(self, link: Channel) -> Iterator[str]:
        """Each word has the micro-instruction of a task that goes here, and its numbers."""
        known = {link.becomes.get(i, i) for i in link.puts}
        for k in range(link.depth):
            place = TaskPosition(False, link.name, k)
            here, task = self.is_filled(place), self.task(place)
            yield f"(=> {here} {self.is_one(_extract(task, 0, self.code_bits), known)})"
            if link.bits:
                numbers = _extract(self.word(link.name, k), 0, link.bits)
                yield f"(=> {here} (= {numbers} {self.repeated(self.tag(place), link.bits)}))"

    def _of_beside(self, link: Channel) -> Iterator[str]:
        """The words of a link, and those that tasks will still put, are one for each task that will
        take one, in the order of these.
        """
        waiting = beside(self.network, link)
        count = index = self.counter(link.name, "count")
        later: list[
            tuple[TaskPosition, str, str]
        ] = []  # with whether there is a word, and its number
        for n in waiting.ghosts:
            place = TaskPosition(True, link.source.station, n)
            here = self.holds((place, link.puts))
            later.append((place, here, index))
            index = _add(index, self._one(here, COUNT))
        ahead = _number(0)
        for place, instructions in waiting.tokens:
            here, tag = self.holds((place, instructions)), self.tag(place)
            same = f"(= {self.word(link.name, ahead)} {self.repeated(tag, link.bits)})"
            if link.bits:
                yield f"(=> (and {here} (bvult {ahead} {count})) {same})"
            for ghost, there, number in later:
                both = f"(and {here} {there} (= {ahead} {number}))"
                yield f"(=> {both} (= {self.tag(ghost)} {tag}))"
                if place.is_stage and place.position > ghost.position - waiting.lead - 2:
                    yield f"(not {both})"  # it is led away in one cycle, and taken in another one
            ahead = _add(ahead, self._one(here, COUNT))
        yield f"(= {index} {ahead})"

    def _of_station(self, station: Station) -> Iterator[str]:
        name, interval, stages = station.name, station.interval, self.stages(station.name)
        every = {
            part.instruction
            for parts in self.ways.values()
            for part in parts
            if isinstance(part, Stay) and part.station == name
        }
        bits = (interval - 1).bit_length()
        phase = self.vector(f"device.{name}.phase", bits) if bits else ""
        if interval > 1:
            yield f"(bvule {phase} {_number(interval - 1, bits)})"
        for n in range(stages):
            place = TaskPosition(True, name, n)
            here, task = self.is_filled(place), self.task(place)
            yield f"(=> {here} {self.is_one(_extract(task, 0, self.code_bits), every)})"
            if interval > 1:
                yield f"(=> {here} (= {phase} {_number(n % interval, bits)}))"
        for port in station.inputs.values():
            takes = {
                i
                for link in self.network.into(name)
                if link.target.port == port.name
                for i in link.takes
            }
            held = self.read(f"device.{name}.held_{port.name}")
            for n in range(port.cycle, min(port.cycle + interval, stages)):
                place = TaskPosition(True, name, n)
                here = self.holds((place, frozenset(takes)))
                yield f"(=> {here} (= {held} {self.repeated(self.tag(place), port.bits)}))"

    def _of_result(self) -> Iterator[str]:
        """The word of results is of a task that is next in its function, and stays."""
        codes = [*self.network.codes.values()]
        yield f"(=> {self.read('out_valid')} {_any(map(self.leaves, codes))})"
        data, plan = self.read("out_data"), words.layout(self.network)
        for name, code in self.network.codes.items():
            bits = sum(place.width for place in plan.results[name]) + self.bits
            numbers = self.repeated(self.read(f"emitted_{code}"), bits)
            same = f"(= {_extract(data, self.code_bits, bits)} {numbers})"
            yield f"(=> {self.leaves(code)} {same})"
        stays = f"(and {self.read('out_valid')} (= {data} {self.read('before')}))"
        yield f"(=> {self.read('offered')} {stays})"

    def _of_turns(self) -> Iterator[str]:
        """The links behind the one that was last are all those after some link."""
        for n in range(len(self.network.leading) - 1):
            turn = self.read("device.encode.mask")
            yield f"(bvule {_extract(turn, n, 1)} {_extract(turn, n + 1, 1)})"

    # What is given, and what must not be

    def datapaths(self) -> Iterator[str]:
        """Datapaths give the numbers of a task in the cycles in which its results are due."""
        for station in self.network.stations.values():
            for port in station.outputs.values():
                puts = {
                    i
                    for link in self.network.out_of(station.name)
                    if link.source.port == port.name
                    for i in link.puts
                }
                place = TaskPosition(True, station.name, port.cycle)
                if port.bits:
                    here = self.holds((place, frozenset(puts)))
                    given = self.read(f"device.{station.name}.{port.name}")
                    yield f"(=> {here} (= {given} {self.repeated(self.tag(place), port.bits)}))"

    def waits(self, link: str) -> str:
        """Whether a link has a word, and it is not taken."""
        taken = self.read(f"{self.fifo(link)}.take")
        return f"(and {self.is_filled(TaskPosition(False, link, 0))} (not {taken}))"

    def waits_outside(self) -> str:
        """Whether a word is offered that there is a credit for, and no second pass goes first."""
        bits = self.network.depth.bit_length()
        credits = self.vector("device.schedule.credits", bits)
        before = _any(
            self.read(f"{self.fifo(name)}.take")
            for name in self.network.first.entries
            if self.network.links[name].depth
        )
        parts = f"{self.read('in_valid')} (not {self.read('in_ready')}) (not {before})"
        return f"(and {parts} (not (= {credits} {_number(0, bits)})))"

    def before(self, k: int) -> str:
        """The number of links of results that go before one, by its position in their order."""
        links = len(self.network.leading)
        if links == 1:
            return _number(0)
        turn = [f"(= {_extract(self.read('device.encode.turn'), n, 1)} #b1)" for n in range(links)]
        total = _number(0)
        for n in range(links):
            # Those behind the last one are first, and links of either kind come in their order
            here = f"(and {turn[n]} (not {turn[k]}))"
            if n < k:
                here = f"(or {here} (= {turn[n]} {turn[k]}))"
            total = _add(total, self._one(here, COUNT))
        return total


def _waits_for_station(of: list[_Claims]) -> str:
    """A word waits before a station in all of these cycles."""
    links = [x for x in of[0].network.links.values() if x.target.station != ENCODE]
    runs = [" ".join(claims.waits(x.name) for claims in of) for x in links if x.leads and x.depth]
    runs.append(" ".join(claims.waits_outside() for claims in of))
    return f"(and {of[0].read('started')} {_any(f'(and {run})' for run in runs)})"


def _waits_for_turn(of: list[_Claims]) -> str:
    """A result waits though there is room and none leaves, or one leaves and those in turn before
    it are not fewer.
    """
    now, then = of
    stays = f"(and {now.read('out_valid')} (not {now.read('out_ready')}))"
    leaves, wrong = now.read("device.encode.freed"), []
    for k, name in enumerate(now.network.leading):
        fewer = f"(bvult {then.before(k)} {now.before(k)})"
        moves = f"(ite {leaves} {fewer} {stays})"
        wrong.append(f"(and {now.waits(name)} (not {moves}))")
    return f"(and {now.read('started')} {_any(wrong)})"


def _number(x: int, bits: int = COUNT) -> str:
    return f"(_ bv{x} {bits})"


def _add(a: str, b: str) -> str:
    return f"(bvadd {a} {b})"


def _extract(vector: str, first: int, bits: int) -> str:
    return f"((_ extract {first + bits - 1} {first}) {vector})"


def _any(conditions: Iterable[str]) -> str:
    return f"(or false {' '.join(conditions)})"
