"""SystemVerilog of a network: its stations, the FIFOs of its links, and the modules around them.

As in Dadu-RBD (2023, section V-B): `decode` takes words of inputs apart, `schedule` counts credits
and says which task each station takes, `feedback` brings results back as inputs of a second pass,
`encode` makes words of results. Nothing is decided here: what there is says the `Network`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.netlist import Field
from featherlane.backends.fpga.network import words
from featherlane.backends.fpga.network.structure import (
    DECODE,
    ENCODE,
    Link,
    Network,
    Port,
    Station,
)
from featherlane.backends.fpga.text import Signal, constant, fitted, indented

LINK = """\
// A FIFO of DEPTH words: a word that is put in one cycle is the head in the next one, if none is
// before it. That no more are put than there is place for, those who put know.
module {name}_link #(
  parameter WIDTH = 8,
  parameter DEPTH = 4,
  parameter COUNT_BITS = 3
) (
  input logic clock,
  input logic reset,
  input logic put,
  input logic [WIDTH-1:0] word,
  input logic take,
  output logic [WIDTH-1:0] head,
  output logic filled
);
  localparam [COUNT_BITS-1:0] LAST_PLACE = DEPTH - 1;
  (* ram_style = "distributed" *) logic [WIDTH-1:0] places [0:DEPTH-1];
  logic [COUNT_BITS-1:0] count, first, last;

  assign filled = count != 0;
  assign head = places[first];

  always_ff @(posedge clock) begin
    if (reset) begin
      count <= '0;
      first <= '0;
      last <= '0;
    end else begin
      if (put != take) count <= put ? count + 1'b1 : count - 1'b1;
      if (put) last <= last == LAST_PLACE ? '0 : last + 1'b1;
      if (take) first <= first == LAST_PLACE ? '0 : first + 1'b1;
    end
    if (put) places[last] <= word;
  end
endmodule
"""


@dataclass(frozen=True)
class Circuit:
    """The sources of a network, by the names of their files."""

    network: Network
    sources: dict[str, str]

    @property
    def name(self) -> str:
        return self.network.name


def circuit(network: Network) -> Circuit:
    """Returns the sources of a network, its stations' among them."""
    network.verify()
    sources: dict[str, str] = {}
    for station in network.stations.values():
        sources |= station.design.sources
        sources[f"{network.name}_{station.name}.sv"] = _station(network, station)
    for name, text in (
        ("link", LINK.format(name=network.name)),
        ("decode", _decode(network)),
        ("schedule", _schedule(network)),
        ("feedback", _feedback(network)),
        ("encode", _encode(network)),
    ):
        sources[f"{network.name}_{name}.sv"] = text
    sources[f"{network.name}.sv"] = _top(network)
    return Circuit(network, sources)


# Pieces of text


def bus(bits: int) -> str:
    """The type of so many bits."""
    return f"logic [{bits - 1}:0]"


def module(name: str, comment: str, ports: Iterable[str], lines: Iterable[str]) -> str:
    """The text of a module."""
    head = ",\n".join(indented([*ports]))
    body = indented([*lines])
    return "\n".join([f"// {comment}", f"module {name} (\n{head}\n);", *body, "endmodule", ""])


def instance(kind: str, name: str, ports: Mapping[str, str], settings: str = "") -> list[str]:
    """The lines of a module inside another one."""
    rows = ",\n".join(f"  .{port}({text})" for port, text in ports.items())
    return f"{kind} {settings}{name} (\n{rows}\n);".split("\n")


def is_one_of(signal: str, instructions: Iterable[int], every: Iterable[int], bits: int) -> str:
    """The condition that a micro-instruction is one of some; `every`: all that it can be."""
    wanted = sorted(instructions)
    if set(wanted) >= set(every):
        return "1'b1"
    return " || ".join(f"{signal} == {bits}'d{i}" for i in wanted) if wanted else "1'b0"


def _one_of(sources: Sequence[tuple[str, str]], bits: int) -> str:
    """The source whose condition holds, or 0. sources: condition and signal."""
    if not sources:
        return f"{bits}'d0"
    if len(sources) == 1 and sources[0][0] == "1'b1":
        return sources[0][1]
    return " | ".join(f"({{{bits}{{{when}}}}} & {what})" for when, what in sources)


def _control(network: Network, prefix: str) -> list[str]:
    """The micro-instruction and the tag of a task, as names with their types."""
    return [
        f"{bus(network.code_bits)} {prefix}_instruction",
        f"{bus(network.tag_bits)} {prefix}_tag",
    ]


def _instructions(network: Network, links: Iterable[Link]) -> set[int]:
    """The micro-instructions with which tasks travel in links, as they leave them."""
    return {link.becomes.get(i, i) for link in links for i in link.puts}


def _of_station(network: Network, station: Station) -> set[int]:
    """The micro-instructions with which a station takes tasks."""
    return _instructions(network, [network.links[name] for name in station.entries])


# Stations


def _cycles(station: Station) -> list[int]:
    return sorted({port.cycle for port in station.outputs.values()})


def _station(network: Network, station: Station) -> str:
    """A station: its phase, the tasks inside, registers of what it takes, and its datapath."""
    interval, lead = station.interval, network.code_bits + network.tag_bits
    phase_bits, last = max((interval - 1).bit_length(), 1), max([*_cycles(station), 0])
    late = [port for port in station.inputs.values() if port.cycle]
    last = max([last, *(port.cycle - 1 for port in late)])
    ports = ["input logic clock", "input logic reset", "output logic ready", "input logic take"]
    ports += [f"input {text}" for text in _control(network, "taken")]
    lines = [f"{bus(phase_bits)} phase, phase_next;"]
    lines += [f"{bus(last + 1)} valid;  // bit n: a task is in its cycle n"]
    lines += [f"{bus(lead * (last + 1))} tasks;  // the tag and the micro-instruction of each"]
    given: dict[int, str] = {}
    for port in station.inputs.values():
        ports.append(f"input {bus(port.bits)} {port.name}")
        lines.append(f"{bus(port.bits)} held_{port.name};")
        strobe = "take"
        if port.cycle:
            strobe = f"take_{port.name}"
            ports += [f"output logic {strobe}", f"output {bus(network.code_bits)} in_{port.name}"]
            at = (port.cycle - 1) * lead
            lines.append(f"assign {strobe} = valid[{port.cycle - 1}];")
            lines.append(f"assign in_{port.name} = tasks[{at + network.code_bits - 1}:{at}];")
        lines.append(f"always_ff @(posedge clock) if ({strobe}) held_{port.name} <= {port.name};")
        offset = 0
        for value, k in zip(port.values, port.nodes, strict=True):
            width = value.form.width
            given[k] = f"held_{port.name}[{offset + width - 1}:{offset}]"
            offset += width
    lines += _phases(station, phase_bits)
    design = station.design
    lines += [f"{bus(design.input_bits)} given;", f"{bus(design.output_bits)} results;"]
    for signal, k, offset in design.inputs:
        lines.append(f"assign given[{offset + signal.width - 1}:{offset}] = {given[k]};")
    lines += instance(
        f"{design.name}_datapath",
        "datapath",
        {"clock": "clock", "phase_next": "phase_next", "given": "given", "results": "results"},
    )
    for cycle in _cycles(station):
        at = cycle * lead
        ports.append(f"output logic done_{cycle}")
        ports += [f"output {text}" for text in _control(network, f"done_{cycle}")]
        lines.append(f"assign done_{cycle} = valid[{cycle}];")
        both = f"{{done_{cycle}_tag, done_{cycle}_instruction}}"
        lines.append(f"assign {both} = tasks[{at + lead - 1}:{at}];")
    fields = _fields(station)
    for port in station.outputs.values():
        if port.values:
            ports.append(f"output {bus(port.bits)} {port.name}")
            found = [fields[k, port.cycle] for k in port.nodes]
            parts = [f"results[{f.offset + f.signal.width - 1}:{f.offset}]" for f in found[::-1]]
            lines.append(f"assign {port.name} = {{{', '.join(parts)}}};")
    lines += [
        "always_ff @(posedge clock) begin",
        "  tasks <= {tasks, taken_tag, taken_instruction};",
        "  valid <= reset ? '0 : {valid, take};",
        "end",
    ]
    comment = f"The station {station.name}: takes a task every {interval} cycles, never waits"
    return module(f"{network.name}_{station.name}", comment, ports, lines)


def _phases(station: Station, bits: int) -> list[str]:
    """The phase of a station, and when it can take a task."""
    if station.interval == 1:
        return ["assign phase_next = '0;", "assign ready = !reset;"]
    last = f"{bits}'d{station.interval - 1}"
    return [
        f"assign phase_next = reset ? {bits}'d{station.offset} : "
        f"phase == {last} ? '0 : phase + 1'b1;",
        "always_ff @(posedge clock) phase <= phase_next;",
        f"assign ready = !reset && phase == {last};",
    ]


def _fields(station: Station) -> dict[tuple[int, int], Field]:
    """The fields of the results of a datapath, by node and the cycle in which it is read."""
    graph, pipeline = station.design.datapath.graph, station.design.pipeline
    read = [(k, pipeline.read_in(name)) for name, out in graph.outputs.items() for k in out.nodes]
    live = [key for key in dict.fromkeys(read) if graph.op[key[0]] != "constant"]
    return dict(zip(live, station.design.outputs, strict=True))


# Decode


def _decode(network: Network) -> str:
    """The parts of a word of inputs. Those that are wires to a station are 0 where a function has
    none, so that the acceleration of forward dynamics is.
    """
    plan, every = words.layout(network), [*network.codes.values()]
    ports = [f"input {bus(plan.input_bits)} data"]
    ports += [f"output {text}" for text in _control(network, "task")]
    (_, bits), (start, tag_bits) = plan.code, plan.tag
    known = is_one_of("code", every, range(1 << bits), bits)
    lines = [
        f"{bus(bits)} code;",
        f"assign code = data[{bits - 1}:0];",
        f"assign task_instruction = {known} ? code : {bits}'d{every[0]};",
        f"assign task_tag = data[{start + tag_bits - 1}:{start}];",
    ]
    places = words.offsets(network, start + tag_bits)
    for name, links in words.decoded(network).items():
        width, offset = links[0].bits, places[name]
        ports.append(f"output {bus(width)} {name}")
        text = f"data[{offset + width - 1}:{offset}]"
        used = set().union(*(link.puts for link in links))
        if any(link.depth == 0 for link in links) and not used >= {*every}:
            when = is_one_of("task_instruction", used, every, bits)
            text = f"{{{width}{{{when}}}}} & {text}"
        lines.append(f"assign {name} = {text};")
    return module(f"{network.name}_decode", "Words of inputs taken apart", ports, lines)


# Schedule


def _schedule(network: Network) -> str:
    """Which task each station takes, and whether one may come: only while there is a credit, which
    stands for a place in every link.
    """
    bits = max(network.depth.bit_length(), 1)
    ports = ["input logic clock", "input logic reset", "input logic in_valid"]
    ports += ["output logic in_ready", "input logic freed"]
    ports += [f"input {text}" for text in _control(network, "task")]
    lines = [f"{bus(bits)} credits;  // places that no task under way may need"]
    for station in network.stations.values():
        ports += [f"input logic {station.name}_ready", f"output logic {station.name}_take"]
        ports += [f"output {text}" for text in _control(network, station.name)]
        lines += _choice(network, station, ports)
    lines += [
        "always_ff @(posedge clock)",
        f"  if (reset) credits <= {bits}'d{network.depth};",
        "  else if ((in_valid && in_ready) != freed)",
        "    credits <= freed ? credits + 1'b1 : credits - 1'b1;",
    ]
    return module(f"{network.name}_schedule", "Credits, and the tasks of stations", ports, lines)


def _prompt(network: Network, station: Station) -> list[Link]:
    """The links with places that a station takes from together with a task."""
    return [
        link
        for link in network.into(station.name)
        if link.depth and not station.inputs[link.target.port].cycle
    ]


def _choice(network: Network, station: Station, ports: list[str]) -> list[str]:
    """The lines that choose the entry of a station; the ports that they need are added."""
    lines, chosen, before = list[str](), list[tuple[str, str]](), list[str]()
    bits = network.code_bits
    for name in station.entries:
        link = network.links[name]
        own = _instructions(network, [link])
        if link.depth:
            ports += [
                f"input logic {name}_filled",
                *(f"input {t}" for t in _control(network, name)),
            ]
            conditions = [f"{name}_filled"]
            signal = name
            for other in _prompt(network, station):
                if other.name != name and other.takes & own:
                    when = is_one_of(f"{name}_instruction", other.takes & own, own, bits)
                    filled = f"{other.name}_filled"
                    conditions.append(filled if when == "1'b1" else f"(!({when}) || {filled})")
        else:
            signal, conditions = "task", ["credits != 0"]
        free = [f"{station.name}_ready", *(f"!{other}" for other in before), *conditions]
        lines += [f"logic {name}_goes;"]
        if link.depth:
            lines.append(f"assign {name}_goes = {' && '.join(free)};")
        else:
            lines.append(f"assign in_ready = {' && '.join(free)};")
            lines.append(f"assign {name}_goes = in_valid && in_ready;")
        before.append(f"{name}_goes")
        chosen.append((f"{name}_goes", signal))
    lines.append(f"assign {station.name}_take = {' || '.join(when for when, _ in chosen)};")
    for part in ("instruction", "tag"):
        *first, (_, last) = chosen
        text = "".join(f"{when} ? {signal}_{part} : " for when, signal in first) + f"{last}_{part}"
        lines.append(f"assign {station.name}_{part} = {text};")
    listed = {link.name for link in _prompt(network, station)} - {*station.entries}
    for name in station.entries:
        if network.links[name].depth:
            ports.append(f"output logic {name}_take")
            lines.append(f"assign {name}_take = {name}_goes;")
    for name in sorted(listed):
        link = network.links[name]
        if any(link.takes & _instructions(network, [network.links[e]]) for e in station.entries):
            ports += [f"input logic {name}_filled", f"output logic {name}_take"]
            every = _of_station(network, station)
            when = is_one_of(f"{station.name}_instruction", link.takes, every, bits)
            text = f"{station.name}_take" + ("" if when == "1'b1" else f" && ({when})")
            lines.append(f"assign {name}_take = {text};")
    return lines


# Links


def _width(network: Network, link: Link) -> int:
    """The bits of a word in a FIFO, with what leads."""
    lead = network.code_bits + network.tag_bits if link.leads else 0
    return max(link.bits + lead, 1)


def _fifo(network: Network, link: Link) -> list[str]:
    """The FIFO of a link, whose head is <link>_head; what leads lies behind its numbers."""
    name, width = link.name, _width(network, link)
    lead = ""
    if link.leads:
        lead = f"{name}_put_tag, {name}_put_instruction"
    word = ", ".join(filter(None, [lead, f"{name}_put_word" if link.bits else ""]))
    lines = [f"{bus(width)} {name}_all;"]
    if link.bits:
        lines.append(f"assign {name}_head = {name}_all[{link.bits - 1}:0];")
    if link.leads:
        both = f"{{{name}_tag, {name}_instruction}}"
        lines.append(f"assign {both} = {name}_all[{width - 1}:{link.bits}];")
    settings = f"#(.WIDTH({width}), .DEPTH({link.depth}), .COUNT_BITS({link.depth.bit_length()})) "
    ports = {
        "clock": "clock", "reset": "reset", "put": f"{name}_put", "word": f"{{{word}}}",
        "take": f"{name}_take", "head": f"{name}_all", "filled": f"{name}_filled",
    }  # fmt: skip
    return [*lines, *instance(f"{network.name}_link", f"link_{name}", ports, settings)]


def is_fed_back(network: Network, link: Link) -> bool:
    """Whether a link leads from a later station to an earlier one, or waits for such a link."""
    order = [*network.stations, ENCODE]
    if link.source.station == DECODE:
        return bool(link.depth) and not link.puts & link.takes
    return order.index(link.source.station) >= order.index(link.target.station)


def _link_ports(network: Network, link: Link) -> list[str]:
    """The ports of a module that has the FIFO of a link."""
    name = link.name
    ports = [f"input logic {name}_put", f"input logic {name}_take", f"output logic {name}_filled"]
    if link.bits:
        ports.append(f"input {bus(link.bits)} {name}_put_word")
        ports.append(f"output {bus(_taken_bits(link))} {name}_head")
    if link.leads:
        ports += [f"input {text}" for text in _control(network, f"{name}_put")]
        ports += [f"output {text}" for text in _control(network, name)]
    return ports


def _taken_bits(link: Link) -> int:
    return sum(form.width for form in link.wanted)


def _feedback(network: Network) -> str:
    """The links that come back, and what waits for them. What the formats of inputs do not hold is
    the nearest number that they do.
    """
    ports, lines = ["input logic clock", "input logic reset"], list[str]()
    for link in network.links.values():
        if is_fed_back(network, link):
            ports += _link_ports(network, link)
            lines += _converted(link)
            inner = [
                text.replace(f"{link.name}_head", f"{link.name}_given")
                for text in _fifo(network, link)
            ]
            lines += inner
    return module(f"{network.name}_feedback", "Results that are inputs again", ports, lines)


def _converted(link: Link) -> list[str]:
    """The lines that give the head of a link in the formats that its target wants."""
    lines, parts, offset = [f"{bus(link.bits)} {link.name}_given;"], list[str](), 0
    for n, (value, wanted) in enumerate(zip(link.values, link.wanted, strict=True)):
        given = Signal(f"{link.name}_{n}", value.form.width)
        bits = f"{link.name}_given[{offset + given.width - 1}:{offset}]"
        lines += [f"{given.type} {given.name};", f"assign {given.name} = {bits};"]
        offset += given.width
        parts.append(given.name)
        if value.form != wanted:
            parts[-1] = f"{given.name}_wanted"
            lines += _saturated(given, value.form, wanted)
    return [*lines, f"assign {link.name}_head = {{{', '.join(parts[::-1])}}};"]


def _saturated(given: Signal, form: Format, wanted: Format) -> list[str]:
    """The lines of a number in another format: the nearest one that it holds, rounded down."""
    name, places = given.name, form.fraction - wanted.fraction
    low, high = wanted.least << max(places, 0), wanted.most << max(places, 0)
    if places < 0:
        low, high = -((-wanted.least) >> -places), wanted.most >> -places
    lines = [f"{bus(wanted.width)} {name}_kept, {name}_wanted;"]
    lines.append(f"assign {name}_kept = {fitted(given, form.fraction, wanted)};")
    choices = list[str]()
    for condition, end, limit in (("<", low, wanted.least), (">", high, wanted.most)):
        if form.least <= end <= form.most:
            test = constant(end, form.width).name
            choices.append(f"{name} {condition} {test} ? {constant(limit, wanted.width).name} : ")
    lines.append(f"assign {name}_wanted = {''.join(choices)}{name}_kept;")
    return lines


# Encode


def _encode(network: Network) -> str:
    """Results in words, one in a register: of links that have one, the first by priority."""
    plan, bits = words.layout(network), network.code_bits
    width, start = plan.result_bits, sum(plan.tag)
    ports = ["input logic clock", "input logic reset", "output logic out_valid"]
    ports += ["input logic out_ready", f"output {bus(width)} out_data", "output logic freed"]
    lines = ["logic free;", "assign free = !out_valid || out_ready;"]
    before, sources = list[str](), list[tuple[str, str]]()
    for name in network.leading:
        own = [i for i, names in network.results.items() if names[0] == name]
        lines.append(f"logic {name}_goes;")
        ports += [f"input logic {name}_filled", *(f"input {t}" for t in _control(network, name))]
        ports += [f"output logic {name}_take", f"input {bus(network.links[name].bits)} {name}_head"]
        conditions = ["free", *(f"!{other}_goes" for other in before), f"{name}_filled"]
        for i in own:
            others = network.results[i][1:]
            behind, parts = network.links[name].bits, [f"{name}_head"]
            when = is_one_of(f"{name}_instruction", [i], own, bits)
            for other in others:
                conditions.append(f"({other}_filled || !({when}))")
                ports += [f"input logic {other}_filled", f"output logic {other}_take"]
                ports.append(f"input {bus(network.links[other].bits)} {other}_head")
                lines.append(f"assign {other}_take = {name}_goes && {when};")
                behind += network.links[other].bits
                parts.insert(0, f"{other}_head")
            code = network.codes[network.function_of(i)]
            lead = f"{name}_tag, {bits}'d{code}"
            rest = width - start - behind
            zeros = [f"{rest}'d0"] if rest else []
            going = f"{name}_goes" + ("" if when == "1'b1" else f" && {when}")
            sources.append((going, "{" + ", ".join([*zeros, *parts, lead]) + "}"))
        lines.append(f"assign {name}_goes = {' && '.join(conditions)};")
        lines.append(f"assign {name}_take = {name}_goes;")
        before.append(name)
    lines += [
        f"assign freed = {' || '.join(f'{name}_goes' for name in network.leading)};",
        "always_ff @(posedge clock) begin",
        "  out_valid <= !reset && (freed || !free);",
        f"  if (freed) out_data <= {_one_of(sources, width)};",
        "end",
    ]
    return module(f"{network.name}_encode", "Words of results", ports, lines)


# The whole


def _top(network: Network) -> str:
    plan = words.layout(network)
    ports = [
        "input logic clock", "input logic reset", "input logic in_valid", "output logic in_ready",
        f"input {bus(plan.input_bits)} in_data", "output logic out_valid", "input logic out_ready",
        f"output {bus(plan.result_bits)} out_data",
    ]  # fmt: skip
    declared: dict[str, str] = {}
    lines: list[str] = []
    inside = {
        "decode": _named_ports(_decode(network)),
        "schedule": _named_ports(_schedule(network)),
        "feedback": _named_ports(_feedback(network)),
        "encode": _named_ports(_encode(network)),
    }
    outside = {text.split()[-1] for text in ports} | {"data"}
    for name, own in inside.items():
        for signal, kind in own.items():
            if signal not in outside:
                declared.setdefault(signal, kind)
        connected = {signal: "in_data" if signal == "data" else signal for signal in own}
        lines += instance(f"{network.name}_{name}", name, connected)
    for station in network.stations.values():
        lines += _station_inside(network, station, declared)
    for link in network.links.values():
        lines += _put(network, link, declared)
        if link.depth and not is_fed_back(network, link):
            for text in _link_ports(network, link):
                _declare(declared, text)
            lines += _fifo(network, link)
    head = [f"{kind} {signal};" for signal, kind in declared.items()]
    comment = (
        f"Tasks of {len(network.codes)} functions to their results, a pass every "
        f"{network.interval} cycles. A word is taken where valid and ready are both 1"
    )
    return module(network.name, comment, ports, [*head, *lines])


def _named_ports(text: str) -> dict[str, str]:
    """The ports of a module, by name, with their types."""
    found = {}
    for line in (
        text.split(") (\n" if ") (\n" in text else " (\n", 1)[1].split("\n);", 1)[0].split(",\n")
    ):
        _, *kind, name = line.split()
        found[name] = " ".join(kind)
    return found


def _declare(declared: dict[str, str], port: str) -> None:
    _, *kind, name = port.split()
    declared.setdefault(name, " ".join(kind))


def _station_inside(network: Network, station: Station, declared: dict[str, str]) -> list[str]:
    """The instance of a station, and what chooses the words that it takes."""
    name, lines, bits = station.name, list[str](), network.code_bits
    ports = {
        "clock": "clock", "reset": "reset", "ready": f"{name}_ready", "take": f"{name}_take",
        "taken_instruction": f"{name}_instruction", "taken_tag": f"{name}_tag",
    }  # fmt: skip
    for port in station.inputs.values():
        signal = f"{name}_{port.name}"
        declared[signal] = bus(port.bits)
        ports[port.name] = signal
        instruction = f"{name}_instruction"
        links = [link for link in network.into(name) if link.target.port == port.name]
        every = set().union(*(link.takes for link in links))
        if port.cycle:
            ports[f"take_{port.name}"], ports[f"in_{port.name}"] = f"{signal}_take", f"{signal}_in"
            declared |= {f"{signal}_take": "logic", f"{signal}_in": bus(bits)}
            instruction = f"{signal}_in"
            for link in links:
                when = is_one_of(instruction, link.takes, _of_station(network, station), bits)
                text = f"{signal}_take" + ("" if when == "1'b1" else f" && ({when})")
                declared[f"{link.name}_take"] = "logic"
                lines.append(f"assign {link.name}_take = {text};")
        elif any(not link.depth for link in links):
            every = _of_station(network, station)
        sources = [
            (is_one_of(instruction, link.takes, every, bits), _source(link)) for link in links
        ]
        lines.append(f"assign {signal} = {_one_of(sources, port.bits)};")
    for cycle in _cycles(station):
        for part, kind in (
            ("", "logic"),
            ("_instruction", bus(bits)),
            ("_tag", bus(network.tag_bits)),
        ):
            ports[f"done_{cycle}{part}"] = f"{name}_done_{cycle}{part}"
            declared[f"{name}_done_{cycle}{part}"] = kind
    for output in station.outputs.values():
        if output.values:
            ports[output.name] = f"{name}_{output.name}_given"
            declared[f"{name}_{output.name}_given"] = bus(output.bits)
    return [*lines, *instance(f"{network.name}_{name}", name, ports)]


def _source(link: Link) -> str:
    return f"{link.name}_head" if link.depth else link.source.port


def _put(network: Network, link: Link, declared: dict[str, str]) -> list[str]:
    """What is put into a link, and when."""
    if not link.depth:
        return []
    name, bits = link.name, network.code_bits
    if link.source.station == DECODE:
        when = is_one_of("task_instruction", link.puts, network.codes.values(), bits)
        lines = [f"assign {name}_put = in_valid && in_ready && ({when});"]
        lines.append(f"assign {name}_put_word = {link.source.port};")
        lead = "task"
    else:
        station = network.stations[link.source.station]
        port: Port = station.outputs[link.source.port]
        lead = f"{station.name}_done_{port.cycle}"
        when = is_one_of(f"{lead}_instruction", link.puts, _of_station(network, station), bits)
        lines = [f"assign {name}_put = {lead} && ({when});"]
        if link.bits:
            lines.append(f"assign {name}_put_word = {station.name}_{port.name}_given;")
    if link.leads:
        text = f"{lead}_instruction"
        for old, new in link.becomes.items():
            text = f"{lead}_instruction == {bits}'d{old} ? {bits}'d{new} : {text}"
        lines.append(f"assign {name}_put_instruction = {text};")
        lines.append(f"assign {name}_put_tag = {lead}_tag;")
    for text in _link_ports(network, link):
        _declare(declared, text)
    return lines
