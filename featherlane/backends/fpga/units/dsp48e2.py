"""The DSP48E2 as a module: what its uses share in ports, in registers and in the primitive.

Inside are a signed product of 27x18 bits and an adder of 48 bits, whose inputs OPMODE chooses
(UG579). A module of it is the primitive in synthesis, and anywhere else what that computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from featherlane.backends.fpga.module import Module
from featherlane.backends.fpga.statements import OPEN, Alternative, Instance, Waived

BITS = 48  # of the adder
OPERAND_REGISTERS = ("A", "ACASC", "B", "BCASC")
WITHOUT_REGISTERS = ("C", "D", "AD", "ALUMODE", "OPMODE", "INMODE", "CARRYIN", "CARRYINSEL")
NEVER_ENABLED = ("C", "D", "AD", "ALUMODE", "CTRL", "INMODE", "CARRYIN")
RESETS = ("A", "B", "C", "D", "M", "P", "ALLCARRYIN", "ALUMODE", "CTRL", "INMODE")
UNUSED = {
    "D": 27, "INMODE": 5, "CARRYINSEL": 3, "ACIN": 30, "BCIN": 18, "CARRYCASCIN": 1,
    "MULTSIGNIN": 1,
}  # fmt: skip


class DspMode(NamedTuple):
    """A use of the DSP48E2. parameters: of the module, with their defaults, OPERANDS among them,
    the registers of each operand; control: its inputs of one bit, `minus` among them; product, sum:
    registers of each, as numbers or parameters; w, z: the bits of OPMODE that choose these inputs
    of the adder; carry: the adder's carry.
    """

    parameters: Mapping[str, int]
    control: tuple[str, ...]
    product: int | str
    sum: int | str
    w: str
    z: str
    carry: str


def module(name: str, about: str, mode: DspMode, add_model: Callable[[Module], None]) -> Module:
    """Returns the module of one DSP. add_model: writes what it computes, for simulations."""
    circuit = Module(name, about)
    for parameter, value in mode.parameters.items():
        circuit.parameter(parameter, value)
    circuit.input("clock")
    circuit.input("a", bits=27, signed=True)
    circuit.input("b", bits=18, signed=True)
    circuit.input("c", "chain_in", bits=BITS, signed=True)
    circuit.input(*mode.control)
    circuit.output("p", "chain_out", bits=BITS, signed=True)
    add_model(circuit)
    circuit.waive_widths()
    primitive = Waived("PINMISSING", OPEN, (_primitive(mode),))
    circuit.body = [Alternative("SYNTHESIS", (primitive,), tuple(circuit.body))]
    return circuit


def _primitive(mode: DspMode) -> Instance:
    """The DSP of the device; what is not used of it is 0."""
    registers: dict[str, int | str] = dict.fromkeys(OPERAND_REGISTERS, "OPERANDS")
    registers |= {"M": mode.product, "P": mode.sum, **dict.fromkeys(WITHOUT_REGISTERS, 0)}
    parameters: dict[str, int | str] = {
        "AMULTSEL": '"A"', "BMULTSEL": '"B"', "A_INPUT": '"DIRECT"', "B_INPUT": '"DIRECT"',
        "USE_MULT": '"MULTIPLY"', "USE_SIMD": '"ONE48"',
        **{f"{name}REG": value for name, value in registers.items()},
    }  # fmt: skip
    ports = {
        "CLK": "clock", "A": "{{3{a[26]}}, a}", "B": "b", "C": "c", "PCIN": "chain_in",
        "OPMODE": f"{{{mode.w}, {mode.z}, 4'b0101}}", "ALUMODE": "{2'b00, minus, minus}",
        "CARRYIN": mode.carry, "P": "p", "PCOUT": "chain_out",
        **{name: f"{bits}'b0" for name, bits in UNUSED.items()},
        **{f"CE{name}": "1'b0" for name in NEVER_ENABLED},
        **{f"RST{name}": "1'b0" for name in RESETS},
    }  # fmt: skip
    enables = {
        "CEA1": "OPERANDS == 2", "CEA2": "OPERANDS > 0", "CEB1": "OPERANDS == 2",
        "CEB2": "OPERANDS > 0", "CEM": _enable(mode.product), "CEP": _enable(mode.sum),
    }  # fmt: skip
    return Instance("DSP48E2", "device_dsp", ports, parameters, enables)


def _enable(registers: int | str) -> str:
    return "1'b1" if registers == 1 else f"{registers} == 1"
