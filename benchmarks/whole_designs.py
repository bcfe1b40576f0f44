"""Are the LUTs and flip-flops that are told of whole designs those that Yosys finds?

Designs with all their modules, the top module and its streams included, on both devices: `--csv
docs/whole_designs.csv` writes the record that tests compare estimates with. All take twenty minutes
of a core with pyosys, and more with YoWASP; units with operand memories, the last, take most of it.
They differ in what they are made of: sines, reciprocals and shifts, multiplexers in front of shared
units, FIFOs of few and of many places.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import options
import synthesis

import featherlane as fl
from featherlane.accelerators.pipelines import PipelineAccelerator
from featherlane.backends.fpga.bitstream.tools import run_yosys
from featherlane.backends.fpga.resources import Resources

TARGETS: dict[str, dict[str, Any]] = {
    "ecp5_85k": {"device": "ecp5_85k", "format": "fitted18", "clock": 60.0},
    "xcvu9p": {"device": "xcvu9p", "format": "fitted"},
}
RECORD = Path(__file__).parents[1] / "docs" / "whole_designs.csv"
COUNTED = ("DSPs", "LUTs", "FFs", "blocks of RAM")
DFD = "forward_dynamics_derivatives"


class WholeDesign(NamedTuple):
    """A function of a robot at an interval; operations of a module share multipliers, if units have
    no operand memories. format: None for that of the device.
    """

    robot: str
    function: str
    interval: int
    datapath: str = "shared"
    format: str | None = None

    def on(self, device: str) -> PipelineAccelerator:
        """The design on a device."""
        how = {"sharing": "module", **TARGETS[device], "interval": self.interval}
        how |= {"datapath": self.datapath, "format": self.format or how["format"]}
        return fl.accelerator(options.loaded(self.robot), self.function, **how)


DESIGNS = (  # the smallest first
    WholeDesign("double_pendulum", "inverse_dynamics", 1),
    WholeDesign("double_pendulum", "forward_dynamics", 1),
    WholeDesign("double_pendulum", f"{DFD}_from", 2),
    WholeDesign("double_pendulum", DFD, 8),
    WholeDesign("double_pendulum", DFD, 1),
    WholeDesign("iiwa14", "mass_matrix", 4),
    WholeDesign("iiwa14", "inverse_dynamics", 4),
)
OF_DEVICES = {
    "xcvu9p": (WholeDesign("iiwa14", f"{DFD}_from", 12, "memories", "q16.16"),),
    "ecp5_85k": (WholeDesign("iiwa14", f"{DFD}_from", 28, "memories", "fitted18"),),
}


def pairs() -> list[tuple[WholeDesign, str]]:
    """The designs, each with a device."""
    both = [(design, device) for design in DESIGNS for device in TARGETS]
    return both + [(design, device) for device, own in OF_DEVICES.items() for design in own]


def main() -> int:
    args = options.parser(__doc__, quick=False, csv=None).parse_args()
    rows = list[dict[str, Any]]()
    for design, device in pairs()[: len(TARGETS) if args.quick else None]:
        made = design.on(device)
        counts = counted(made, device)
        told = ", ".join(
            f"{name} {x:,.0f} predicted, {y:,.0f} by Yosys ({100 * (x / y - 1):+.1f} %)"
            for name, x, y in zip(COUNTED[:3], made.cost.total, counts, strict=False)
        )
        print(f"{device}, {design.robot}, {design.function}, {design.interval}: {told}")
        numbers = dict(zip(COUNTED, map(int, counts), strict=True))
        named = design._asdict() | {"format": design.format or TARGETS[device]["format"]}
        rows.append({"device": device, **named, **numbers})
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


def counted(made: PipelineAccelerator, device: str) -> Resources:
    """What Yosys takes for a whole design."""
    script = synthesis.CELLS if device == "ecp5_85k" else synthesis.SCRIPT
    sources = made.design.sources
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        run_yosys(script.format(files=" ".join(sources), top=made.name), folder)
        cells = json.loads((folder / "statistics.json").read_text())["design"]["num_cells_by_type"]
    of_cells = synthesis.resources_of_ecp5 if device == "ecp5_85k" else synthesis.resources_of
    return of_cells(cells)


if __name__ == "__main__":
    sys.exit(main())
