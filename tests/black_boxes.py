"""Cells of devices as empty modules with all of their ports, to lint the text of synthesis."""

from typing import NamedTuple


class BlackBox(NamedTuple):
    """A cell: parameters, and bits of its inputs and outputs by name."""

    parameters: tuple[str, ...]
    inputs: dict[str, int]
    outputs: dict[str, int]

    def text(self, name):
        """The module, which a linter takes as it is."""
        parameters = ", ".join(f"parameter {parameter} = 0" for parameter in self.parameters)
        ports = [
            f"{way} wire [{bits - 1}:0] {port}" if bits > 1 else f"{way} wire {port}"
            for way, listed in (("input", self.inputs), ("output", self.outputs))
            for port, bits in listed.items()
        ]
        head = f"module {name} #({parameters})" if parameters else f"module {name}"
        return f"{head} ({', '.join(ports)});\nendmodule\n"


def one_bit(*names):
    return dict.fromkeys(names, 1)


def each_bit(bits, *names):
    """Ports of one bit, as A0 to A17."""
    return one_bit(*(f"{name}{n}" for name in names for n in range(bits)))


CELLS = {
    "CCU2C": BlackBox(
        ("INIT0", "INIT1", "INJECT1_0", "INJECT1_1"),
        one_bit("CIN", *(f"{name}{n}" for n in (0, 1) for name in "ABCD")),
        one_bit("S0", "S1", "COUT"),
    ),
    "EHXPLLL": BlackBox(
        (
            "PLLRST_ENA", "INTFB_WAKE", "STDBY_ENABLE", "DPHASE_SOURCE", "OUTDIVIDER_MUXA",
            "OUTDIVIDER_MUXB", "CLKOP_ENABLE", "CLKOP_FPHASE", "CLKOS_ENABLE", "CLKOS_FPHASE",
            "FEEDBK_PATH", "CLKI_DIV", "CLKFB_DIV", "CLKOP_DIV", "CLKOP_CPHASE", "CLKOS_DIV",
            "CLKOS_CPHASE",
        ),
        one_bit(
            "CLKI", "CLKFB", "PHASESEL1", "PHASESEL0", "PHASEDIR", "PHASESTEP", "PHASELOADREG",
            "STDBY", "PLLWAKESYNC", "RST", "ENCLKOP", "ENCLKOS", "ENCLKOS2", "ENCLKOS3",
        ),
        one_bit("CLKOP", "CLKOS", "CLKOS2", "CLKOS3", "LOCK", "INTLOCK", "REFCLK", "CLKINTFB"),
    ),
    **dict.fromkeys(
        ("MUXF7", "MUXF8", "MUXF9"), BlackBox((), one_bit("I0", "I1", "S"), one_bit("O"))
    ),
    "LUT6_2": BlackBox(("INIT",), one_bit(*(f"I{n}" for n in range(6))), one_bit("O5", "O6")),
    "LUT4": BlackBox(("INIT",), one_bit("A", "B", "C", "D"), one_bit("Z")),
    "MULT18X18D": BlackBox(
        ("REG_INPUTA_CLK", "REG_INPUTB_CLK", "REG_PIPELINE_CLK", "REG_OUTPUT_CLK", "GSR"),
        each_bit(18, "A", "B", "C", "SRIA", "SRIB") | each_bit(4, "CLK", "CE", "RST")
        | one_bit("SIGNEDA", "SIGNEDB", "SOURCEA", "SOURCEB"),
        each_bit(36, "P") | each_bit(18, "SROA", "SROB", "ROA", "ROB", "ROC") | one_bit("SIGNEDP"),
    ),
    "DSP48E2": BlackBox(
        (
            "AMULTSEL", "BMULTSEL", "A_INPUT", "B_INPUT", "USE_MULT", "USE_SIMD", "AREG",
            "ACASCREG", "BREG", "BCASCREG", "MREG", "PREG", "CREG", "DREG", "ADREG", "ALUMODEREG",
            "OPMODEREG", "INMODEREG", "CARRYINREG", "CARRYINSELREG",
        ),
        {
            "A": 30, "B": 18, "C": 48, "D": 27, "ACIN": 30, "BCIN": 18, "PCIN": 48, "OPMODE": 9,
            "ALUMODE": 4, "INMODE": 5, "CARRYINSEL": 3,
        }
        | one_bit("CLK", "CARRYIN", "CARRYCASCIN", "MULTSIGNIN")
        | one_bit(
            "CEA1", "CEA2", "CEAD", "CEALUMODE", "CEB1", "CEB2", "CEC", "CECARRYIN", "CECTRL",
            "CED", "CEINMODE", "CEM", "CEP",
        )
        | one_bit(
            "RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC", "RSTCTRL", "RSTD", "RSTINMODE",
            "RSTM", "RSTP",
        ),
        {"P": 48, "PCOUT": 48, "ACOUT": 30, "BCOUT": 18, "CARRYOUT": 4, "XOROUT": 8}
        | one_bit(
            "CARRYCASCOUT", "MULTSIGNOUT", "OVERFLOW", "UNDERFLOW", "PATTERNDETECT",
            "PATTERNBDETECT",
        ),
    ),
}  # fmt: skip
# They have no contents, and lie in one file
WAIVED = ("DECLFILENAME", "UNUSEDSIGNAL", "UNUSEDPARAM", "UNDRIVEN")


def text():
    """All cells in one file."""
    head = [f"/* verilator lint_off {rule} */" for rule in WAIVED]
    return "\n".join([*head, *(cell.text(name) for name, cell in CELLS.items())])
