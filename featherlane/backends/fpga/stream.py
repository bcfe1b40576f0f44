"""The stream around a datapath: words of inputs in, words of results out, each with valid and
ready.

The datapath never waits. A state is let in only while there is a place for its result in the FIFO
behind it: credits count the places that are neither taken nor promised. One bit travels along with
each state and puts its results into the FIFO.
"""

from __future__ import annotations

from collections.abc import Sequence

from featherlane.backends.fpga.module import Bits, Module, named, same
from featherlane.backends.fpga.netlist import Field, Netlist
from featherlane.backends.fpga.part import MOST_ENABLED
from featherlane.backends.fpga.statements import UNREAD
from featherlane.backends.fpga.text import every
from featherlane.program.analysis.pipeline import Pipeline

DATAPATH = ("clock", "phase_next", "given", "results")  # the ports of a datapath
STREAM = (
    *("clock", "reset", "in_valid", "in_ready", "out_valid", "out_ready"),
    "out_data",
)  # those of a module between two streams, but for the words of inputs
EXTRA = 4  # cycles of a credit besides the latency: input register, FIFO, the counter itself


def bits(fields: Sequence[Field]) -> int:
    """The bits of a word, one at least."""
    return max((field.offset + field.signal.width for field in fields), default=1)


def full_depth(pipeline: Pipeline) -> int:
    """As many states under way as make the datapath never wait for credits."""
    return -(-(pipeline.latency + EXTRA) // pipeline.interval) + 1


def modules(netlist: Netlist, depth: int) -> dict[str, Module]:
    """The modules around the datapath, by their names."""
    return named(_control(netlist.name), _top(netlist, depth))


def _control(name: str) -> Module:
    """Credits, phases and the FIFO of results."""
    module = Module(f"{name}_stream", ABOUT)
    module.parameter("INTERVAL", 1, "cycles from one state to the next")
    module.parameter("LATENCY", 1, "the cycle of a state in which its results are there")
    module.parameter("DEPTH", 4, "states in the datapath and the FIFO together")
    module.parameter("PHASE_BITS", 1)
    module.parameter("COUNT_BITS", 3)
    module.parameter("WIDTH", 8, "bits of the results")
    add_stream_ports(module, "WIDTH")
    module.output("phase_next", bits="PHASE_BITS")
    module.input("results", bits="WIDTH")
    module.constant("CYCLES", "LATENCY + 1")
    module.constant("LAST_PHASE", "PHASE_BITS'(INTERVAL - 1)", bits="PHASE_BITS")
    module.constant("PLACE_BITS", "DEPTH > 1 ? $clog2(DEPTH) : 1")
    module.constant("LAST_PLACE", "COUNT_BITS'(DEPTH - 1)", bits="COUNT_BITS")
    # Kept: synthesis would merge it with those of a datapath, which lie where its modules do
    module.declare("phase", bits="PHASE_BITS", attribute="keep")
    module.declare("credits", "count", "first", "last", bits="COUNT_BITS")
    module.declare("travelling", bits="CYCLES", comment="bit n: a state is in its cycle n")
    module.declare("accepted", "arrived", "emitted")
    module.declare("due", comment="a state can be let in")
    module.declare("fifo", bits="WIDTH", size="DEPTH")
    module.assign("phase_next", "reset || phase == LAST_PHASE ? '0 : phase + 1'b1")
    module.assign("in_ready", "!reset && (INTERVAL == 1 ? credits != 0 : due)")
    module.assign("accepted", "in_valid && in_ready")
    module.assign("arrived", "travelling[LATENCY]")
    module.assign("out_valid", "count != 0")
    module.assign("out_data", "fifo[PLACE_BITS'(first)]")
    module.assign("emitted", "out_valid && out_ready")
    module.clocked(NEXT_CYCLE)
    return module


ABOUT = (
    "Credits, phases and the FIFO of results; see the module that has it for the datapath. The "
    "phase in which a state can be let in is the last one: its own cycle 0 has phase 0."
)


NEXT_CYCLE = """
    phase <= phase_next;
    due <= phase_next == LAST_PHASE && (credits != 0 || emitted);
    if (reset) begin
      travelling <= '0;
      credits <= COUNT_BITS'(DEPTH);
      count <= '0;
      first <= '0;
      last <= '0;
    end else begin
      travelling <= (travelling << 1) | CYCLES'(accepted);
      if (accepted != emitted) credits <= accepted ? credits - 1'b1 : credits + 1'b1;
      if (arrived != emitted) count <= arrived ? count + 1'b1 : count - 1'b1;
      if (arrived) last <= last == LAST_PLACE ? '0 : last + 1'b1;
      if (emitted) first <= first == LAST_PLACE ? '0 : first + 1'b1;
    end
    if (arrived) fifo[PLACE_BITS'(last)] <= results;
"""


def add_stream_ports(module: Module, results: Bits, inputs: Bits = None) -> None:
    """The ports of a module between two streams. results: bits of a word of results; inputs: of a
    word of inputs, without which the module only counts them.
    """
    module.input("clock", "reset", "in_valid")
    module.output("in_ready")
    if inputs is not None:
        module.input("in_data", bits=inputs)
    module.output("out_valid")
    module.input("out_ready")
    module.output("out_data", bits=results)


def datapath(netlist: Netlist, phase_bits: int, comment: str) -> Module:
    """The module of a datapath, with its ports alone."""
    module = Module(f"{netlist.name}_datapath", comment)
    module.input("clock")
    module.input("phase_next", bits=phase_bits)
    module.input("given", bits=bits(netlist.inputs))
    module.output("results", bits=bits(netlist.outputs))
    module.unread = UNREAD
    return module


def _top(netlist: Netlist, depth: int) -> Module:
    """The datapath with its stream."""
    pipeline, width = netlist.pipeline, bits(netlist.outputs)
    phase_bits = max((pipeline.interval - 1).bit_length(), 1)
    comment = (
        f"A stream of inputs to a stream of results: a state {every(pipeline.interval)}, "
        f"results in cycle {pipeline.latency}. A word is taken where valid and ready are both 1. "
        "reset is synchronous."
    )
    module = Module(netlist.name, comment, legend=netlist.legend)
    add_stream_ports(module, width, bits(netlist.inputs))
    module.declare("phase_next", bits=phase_bits)
    module.declare("given", bits=bits(netlist.inputs))
    module.declare("results", bits=width)
    _add_input_register(module, pipeline.interval, bits(netlist.inputs))
    module.instance(f"{netlist.name}_datapath", "datapath", same(DATAPATH))
    parameters = {
        "INTERVAL": pipeline.interval, "LATENCY": pipeline.latency, "DEPTH": depth,
        "PHASE_BITS": phase_bits, "COUNT_BITS": depth.bit_length(), "WIDTH": width,
    }  # fmt: skip
    ports = same((*STREAM, "phase_next", "results"))
    module.instance(f"{netlist.name}_stream", "stream", ports, parameters)
    return module


def _add_input_register(module: Module, interval: int, width: int) -> None:
    """The register of inputs. With phases it takes a word in each one in which there may be one:
    whether there is, `travelling` knows. Registers of the phase enable parts of it: wires from one
    for all would be long, and those from the logic of the stream longer.
    """
    if interval == 1:
        module.clocked("given <= in_data;", when="in_valid && in_ready")
        return
    phase_bits = (interval - 1).bit_length()
    for n, first in enumerate(range(0, width, MOST_ENABLED)):
        bits_of_part = f"[{min(first + MOST_ENABLED, width) - 1}:{first}]"
        flag = module.declare(f"takes_{n}", attribute="keep")
        module.clocked(f"{flag} <= phase_next == {phase_bits}'d{interval - 1};")
        module.clocked(f"given{bits_of_part} <= in_data{bits_of_part};", when=flag)
