"""The modules and wires of links: their FIFO, what is put into it and when, and numbers that change
their format on the way.
"""

from __future__ import annotations

from featherlane.backends.fixed.formats import Format
from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.network import slices
from featherlane.backends.fpga.network.structure import DECODE, ENCODE, Channel, Network
from featherlane.backends.fpga.network.text import (
    ControlModule,
    bits_of,
    both,
    is_one_of,
    taken_by,
    task_wires,
)
from featherlane.backends.fpga.text import Signal, constant, fitted


def fifo(network: Network) -> Module:
    """The FIFO of a link."""
    module = Module(f"{network.name}_link", ABOUT)
    module.parameter("WIDTH", 8)
    module.parameter("DEPTH", 4)
    module.parameter("COUNT_BITS", 3)
    module.input("clock", "reset", "put")
    module.input("word", bits="WIDTH")
    module.input("take")
    module.output("head", bits="WIDTH")
    module.output("filled")
    module.constant("PLACE_BITS", "DEPTH > 1 ? $clog2(DEPTH) : 1")
    module.constant("LAST_PLACE", "COUNT_BITS'(DEPTH - 1)", bits="COUNT_BITS")
    module.declare("places", bits="WIDTH", size="DEPTH", attribute='ram_style = "distributed"')
    module.declare("count", "first", "last", bits="COUNT_BITS")
    module.assign("filled", "count != 0")
    module.assign("head", "places[PLACE_BITS'(first)]")
    module.clocked("""
        if (reset) begin
          count <= '0;
          first <= '0;
          last <= '0;
        end else begin
          if (put != take) count <= put ? count + 1'b1 : count - 1'b1;
          if (put) last <= last == LAST_PLACE ? '0 : last + 1'b1;
          if (take) first <= first == LAST_PLACE ? '0 : first + 1'b1;
        end
        if (put) places[PLACE_BITS'(last)] <= word;
    """)
    return module


ABOUT = (
    "A FIFO of DEPTH words: a word that is put in one cycle is the head in the next one, if none "
    "is before it. Those who put know that no more are put than there is place for."
)


def lead_bits(network: Network, link: Channel) -> int:
    """The bits of the micro-instruction and the tag in a link's words."""
    return network.code_bits + network.tag_bits if link.leads else 0


def is_fed_back(network: Network, link: Channel) -> bool:
    """Whether a link leads from a later station to an earlier one, or waits for such a link."""
    order = [*network.stations, ENCODE]
    if link.source.station == DECODE:
        return bool(link.depth) and not link.puts & link.takes
    return order.index(link.source.station) >= order.index(link.target.station)


def connect(module: ControlModule, link: Channel, outside: bool) -> None:
    """The signals of a FIFO: ports of the module that it lies in, if what it joins lies outside."""
    name, network = link.name, module.network
    shown = "slice" if network.gives_slices(link) else "head"
    shown_bits = slices.slice_bits(network, link) if shown == "slice" else link.wanted_bits
    puts = {f"{name}_put": None, f"{name}_take": None, f"{name}_put_word": link.bits or None}
    heads = {f"{name}_filled": None, f"{name}_{shown}": shown_bits}
    if not link.bits:
        del puts[f"{name}_put_word"], heads[f"{name}_{shown}"]
    if link.leads:
        puts |= task_wires(network, f"{name}_put")
        heads |= task_wires(network, name)
    for wires, port in ((puts, module.input), (heads, module.output)):
        for wire, bits in wires.items():
            (port if outside else module.declare)(wire, bits=bits)


def add_fifo(module: ControlModule, link: Channel) -> None:
    """The FIFO of a link; what leads lies behind the numbers of a word, or in another FIFO if the
    numbers are sliced.
    """
    if link.sliced:
        _add_slices(module, link)
        return
    name, lead = link.name, lead_bits(module.network, link)
    width = link.bits + lead
    parts = [f"{name}_put_tag", f"{name}_put_instruction"] if link.leads else []
    parts += [f"{name}_put_word"] if link.bits else []
    module.declare(f"{name}_all", bits=width)
    settings = {"WIDTH": width, "DEPTH": link.depth, "COUNT_BITS": link.depth.bit_length()}
    ports = {
        "clock": "clock", "reset": "reset", "put": f"{name}_put", "word": f"{{{', '.join(parts)}}}",
        "take": f"{name}_take", "head": f"{name}_all", "filled": f"{name}_filled",
    }  # fmt: skip
    module.instance(f"{module.network.name}_link", f"link_{name}", ports, settings)
    if link.leads:
        module.assign(
            f"{{{name}_tag, {name}_instruction}}", bits_of(f"{name}_all", link.bits, lead)
        )
    if link.bits:
        _add_head(module, link)


def _add_slices(module: ControlModule, link: Channel) -> None:
    """The FIFOs of a link in slices: of its numbers, which wait in the formats of the target, and
    of what leads.
    """
    name, network = link.name, module.network
    memory, _, whole = slices.names(network)
    in_slices, padding = network.gives_slices(link), network.padding(link)
    word = _converted(module, link, f"{name}_put_word")
    ports = {
        "clock": "clock", "reset": "reset", "put": f"{name}_put",
        "word": f"{{{word}, {padding}'b0}}" if padding else word,
        "take": f"{name}_take", "filled": f"{name}_filled",
    }  # fmt: skip
    ports |= {"slice": f"{name}_slice"} if in_slices else {"head": f"{name}_head"}
    kind = memory if in_slices else whole
    module.instance(kind, f"link_{name}", ports, slices.settings(network, link))
    if not link.leads:
        return
    lead = lead_bits(network, link)
    module.declare(f"{name}_lead", bits=lead)
    module.declare(f"{name}_leads")
    settings = {"WIDTH": lead, "DEPTH": link.depth, "COUNT_BITS": link.depth.bit_length()}
    ports = {
        "clock": "clock", "reset": "reset", "put": f"{name}_put",
        "word": f"{{{name}_put_tag, {name}_put_instruction}}",
        "take": f"{name}_take", "head": f"{name}_lead", "filled": f"{name}_leads",
    }  # fmt: skip
    module.instance(f"{network.name}_link", f"lead_{name}", ports, settings)
    module.assign(f"{{{name}_tag, {name}_instruction}}", f"{name}_lead")


def _add_head(module: ControlModule, link: Channel) -> None:
    """The head of a link, in the formats that its target wants."""
    module.assign(f"{link.name}_head", _converted(module, link, f"{link.name}_all"))


def _converted(module: ControlModule, link: Channel, word: str) -> str:
    """The numbers of a word in the formats that the target wants."""
    name = link.name
    if all(value.form == wanted for value, wanted in zip(link.values, link.wanted, strict=True)):
        return bits_of(word, 0, link.bits)
    parts, offset = list[str](), 0
    for n, (value, wanted) in enumerate(zip(link.values, link.wanted, strict=True)):
        x = Signal(f"{name}_{n}", value.form.width)
        module.declare_signal(x)
        module.assign(x.name, bits_of(word, offset, x.width))
        offset += x.width
        parts.append(x.name if value.form == wanted else _saturated(module, x, value.form, wanted))
    return f"{{{', '.join(parts[::-1])}}}"


def _saturated(module: ControlModule, x: Signal, form: Format, wanted: Format) -> str:
    """A number in another format: the nearest one that this holds, rounded down."""
    places = form.fraction - wanted.fraction
    if places >= 0:
        low, high = wanted.least << places, wanted.most << places
    else:
        low, high = -(-wanted.least >> -places), wanted.most >> -places
    kept = module.wire(f"{x.name}_kept", wanted.width, fitted(x, form.fraction, wanted))
    text = ""
    for condition, end, limit in (("<", low, wanted.least), (">", high, wanted.most)):
        if form.least <= end <= form.most:
            test = constant(end, form.width).name
            text += f"{x.name} {condition} {test} ? {constant(limit, wanted.width).name} : "
    return module.wire(f"{x.name}_wanted", wanted.width, text + kept)


def add_put(module: ControlModule, link: Channel) -> None:
    """The words that are put into a link, and the condition for it."""
    name, network, bits = link.name, module.network, module.network.code_bits
    if link.source.station == DECODE:
        lead, word = "task", link.source.port
        when = is_one_of("task_instruction", link.puts, network.codes.values(), bits)
        module.assign(f"{name}_put", both("in_valid", "in_ready", when))
    else:
        station = network.stations[link.source.station]
        lead = f"{station.name}_done_{station.outputs[link.source.port].cycle}"
        word = f"{station.name}_{link.source.port}_given"
        when = is_one_of(f"{lead}_instruction", link.puts, taken_by(network, station), bits)
        module.assign(f"{name}_put", both(lead, when))
    if link.bits:
        module.assign(f"{name}_put_word", word)
    if link.leads:
        text = f"{lead}_instruction"
        for old, new in link.becomes.items():
            text = f"{lead}_instruction == {bits}'d{old} ? {bits}'d{new} : {text}"
        module.assign(f"{name}_put_instruction", text)
        module.assign(f"{name}_put_tag", f"{lead}_tag")
