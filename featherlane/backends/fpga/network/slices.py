"""Modules of links whose words lie in UltraRAMs: a word is written in slices, one a cycle, and
comes out in slices again, for a register behind it.

Slice n of a word consists of its chunks n, n + SLICES and so on: a word that is shorter than others
takes narrower slices, not fewer, and the slices of words that begin at one chunk fit to each other.
"""

from __future__ import annotations

from featherlane.backends.fpga.module import Module, same
from featherlane.backends.fpga.network.structure import Channel, Network
from featherlane.backends.fpga.units.choices import choice

BEHIND = "Bits behind the end of a word are not read."
PORTS = ("clock", "reset", "put", "word", "take", "filled")

# Slices are written from `held`, one a cycle, and read in the cycles after a word is taken
MEMORY = """
    if (put) held <= ordered;
    if (reset) begin
      count <= '0;
      first <= '0;
      last <= '0;
      writes <= 1'b0;
      write_step <= '0;
    end else begin
      if (put != take) count <= put ? count + 1'b1 : count - 1'b1;
      if (put) writes <= 1'b1;
      else if (write_step == '1) writes <= 1'b0;
      if (writes) write_step <= write_step + 1'b1;
      if (write_step == '1) last <= last == LAST_PLACE ? '0 : last + 1'b1;
      if (take) first <= first == LAST_PLACE ? '0 : first + 1'b1;
    end
    if (take) reading <= PLACE_BITS'(first);
    read_step <= take ? '0 : read_step + 1'b1;
    if (writes) slices[{PLACE_BITS'(last), write_step}] <= written;
    slice <= slices[{reading, read_step}];
"""


def names(network: Network) -> tuple[str, str, str]:
    """The names of the modules of a network: memory, register, and both as a FIFO."""
    return f"{network.name}_slices", f"{network.name}_gathered", f"{network.name}_sliced_link"


def modules(network: Network) -> list[Module]:
    """The modules that links in slices consist of; none if there are none."""
    if network.slicing is None:
        return []
    return [_memory(network), _register(network), _fifo(network)]


def settings(network: Network, link: Channel) -> dict[str, int]:
    """The parameters of the memory of a link, or of its FIFO."""
    width, depth = network.padding(link) + link.wanted_bits, link.depth
    of_word = {"WIDTH": width, "SLICE": slice_bits(network, link)}
    return {**of_word, "DEPTH": depth, "COUNT_BITS": depth.bit_length()}


def slice_bits(network: Network, link: Channel) -> int:
    """The bits of a slice of a link's words."""
    return network.slices.slice_bits(network.padding(link) + link.wanted_bits)


def _module(network: Network, name: str, comment: str, is_fifo: bool = True) -> Module:
    """A module with the parameters of words, and of FIFOs of them."""
    slicing, module = network.slices, Module(name, comment)
    module.parameter("WIDTH", slicing.steps * slicing.chunk)
    module.parameter("SLICE", slicing.chunk)
    if is_fifo:
        module.parameter("DEPTH", 4)
        module.parameter("COUNT_BITS", 3)
    module.input("clock", "reset")
    return module


def _constants(module: Module, network: Network) -> None:
    module.constant("SLICES", network.slices.steps)
    module.constant("CHUNK", network.slices.chunk)
    module.constant("COLUMNS", "SLICE / CHUNK")


def _cut(module: Module, whole: str, sliced: str, joins: bool) -> None:
    """Wires between a word and its slices, one behind the other. joins: whether slices become the
    word.
    """
    in_word = f"{whole}[n * CHUNK +: CHUNK]"
    in_slices = f"{sliced}[((n % SLICES) * COLUMNS + n / SLICES) * CHUNK +: CHUNK]"
    left, right = (in_word, in_slices) if joins else (in_slices, in_word)
    module.process(
        "for (genvar n = 0; n < COLUMNS * SLICES; n++) begin : chunk",
        f"assign {left} = {right};",
        end="end",
    )


def _memory(network: Network) -> Module:
    """The memory of a link."""
    slicing, (name, *_) = network.slices, names(network)
    bits = slicing.steps.bit_length() - 1
    module = _module(network, name, (
        "A FIFO of DEPTH words in a memory of slices: a word that is put in one cycle can be taken "
        "in the next one. Its slices come from the second cycle on after that in which it is taken."
        " Words are neither put nor taken more often than they have slices"
    ))  # fmt: skip
    _constants(module, network)
    _declare_memory(module, bits)
    module.assign("padded", "(SLICES * SLICE)'(word)")
    _cut(module, "padded", "ordered", joins=False)
    _choose(module, slicing.steps)
    module.assign("filled", "count != 0")
    module.clocked(MEMORY)
    return module


def _declare_memory(module: Module, bits: int) -> None:
    """The ports and signals of the memory of a link. bits: of the number of a slice."""
    module.constant("PLACE_BITS", "DEPTH > 1 ? $clog2(DEPTH) : 1")
    module.constant("LAST_PLACE", "COUNT_BITS'(DEPTH - 1)", bits="COUNT_BITS")
    module.input("put")
    module.input("word", bits="WIDTH")
    module.input("take")
    module.output("slice", bits="SLICE")
    module.output("filled")
    # Slices are never read in the cycle in which they are written, so that this needs no circuit
    style = 'no_rw_check, ram_style = "ultra"'
    module.declare("slices", bits="SLICE", size="(DEPTH * SLICES)", attribute=style)
    module.declare("padded", "ordered", "held", bits="(SLICES * SLICE)")
    module.declare("written", bits="SLICE")
    module.declare("writes")
    module.declare("write_step", "read_step", bits=bits)
    module.declare("count", "first", "last", bits="COUNT_BITS")
    module.declare("reading", bits="PLACE_BITS")


def _choose(module: Module, count: int) -> None:
    """The slice that is written: a choice among four parts of a word takes one LUT of six inputs,
    and synthesis keeps that, rather than another tree with more of them.
    """
    parts = [f"held[{n} * SLICE +: SLICE]" for n in range(count)]
    bit = 0
    while len(parts) > 1:
        ways = min(len(parts), 4)
        groups = [parts[n : n + ways] for n in range(0, len(parts), ways)]
        choices = [choice(group, "write_step", bit) for group in groups]
        if len(groups) == 1:
            module.assign("written", choices[0])
            return
        parts = [f"part_{n}" for n in range(len(groups))]
        module.declare(*parts, bits="SLICE", attribute="keep")
        for part, chosen in zip(parts, choices, strict=True):
            module.assign(part, chosen)
        bit += ways.bit_length() - 1


def _register(network: Network) -> Module:
    """The register behind links."""
    count, (_, name, _) = network.slices.steps, names(network)
    bits = (count + 1).bit_length()
    comment = (
        "A register for words that come in slices: the first one comes in the second cycle after "
        "`start`, and in that of the last one `ends` is 1. It is not started again before"
    )
    module = _module(network, name, comment, is_fifo=False)
    module.unread = BEHIND
    _constants(module, network)
    module.input("start")
    module.input("slice", bits="SLICE")
    module.output("word", bits="WIDTH")
    module.output("loads", "ends")
    module.declare("ordered", bits="(SLICES * SLICE)", unread=BEHIND)
    module.declare("held", bits="(SLICES * SLICE)")
    module.declare("step", bits=bits)
    module.assign("loads", "step != 0")
    module.assign("ends", f"step == {bits}'d{count + 1}")
    _cut(module, "ordered", "held", joins=True)
    module.assign("word", "ordered[WIDTH-1:0]")
    module.clocked(
        f"step <= reset || ends ? '0 : start ? {bits}'d1 : step + {bits}'(loads);",
        *(
            f"if (step == {bits}'d{n + 2}) held[{n} * SLICE +: SLICE] <= slice;"
            for n in range(count)
        ),
    )
    return module


def _fifo(network: Network) -> Module:
    """The FIFO of a link in slices."""
    memory, register, name = names(network)
    module = _module(network, name, (
        "A FIFO of DEPTH words whose places are slices in a memory: the head stands in a register, "
        "and the next one does some cycles after it was taken"
    ))  # fmt: skip
    module.input("put")
    module.input("word", bits="WIDTH")
    module.input("take")
    module.output("head", bits="WIDTH")
    module.output("filled")
    module.declare("slice", bits="SLICE")
    module.declare("stored", "starts", "loads", "ends")
    passed = same(["WIDTH", "SLICE", "DEPTH", "COUNT_BITS"])
    ports = {**same(PORTS), "slice": "slice", "take": "starts", "filled": "stored"}
    module.instance(memory, "memory", ports, passed)
    ports = {**same(["clock", "reset", "slice", "loads", "ends"]), "start": "starts"}
    module.instance(register, "register", {**ports, "word": "head"}, same(["WIDTH", "SLICE"]))
    module.assign("starts", "stored && !loads && (!filled || take)")
    module.clocked("""
        if (reset) filled <= 1'b0;
        else if (ends) filled <= 1'b1;
        else if (take) filled <= 1'b0;
    """)
    return module
