"""The emitted files of ten designs for FPGAs are those of the record, byte for byte.

Formats, schedules and sources are decided without a clock or a random number of this machine, so
that a design is the same wherever it is made. Reports and vectors, whose figures come from float64,
are left out. `python tests/test_emitted.py` writes the record anew, which takes a line in the
change log that says why the designs compute the same.
"""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from repetition import repeated

import featherlane as fl

FILE = Path(__file__).with_name("emitted.json")
EMITTED = json.loads(FILE.read_text()) if FILE.exists() else {}
KINDS = {".sv", ".xdc", ".lpf", ".tcl", ".md"}
DIGITS = 12  # of a digest
DIFD = "forward_dynamics_derivatives_from"


def pendulum(function, **options):
    return fl.accelerator(fl.load("double_pendulum"), function, **options)


DESIGNS = {  # those that take less than a second first
    "uniform": lambda: pendulum("inverse_dynamics", interval=4),
    "proved": lambda: pendulum("forward_dynamics", interval=6, format="proved", f_ext="body"),
    "Q16.16": lambda: pendulum("mass_matrix_inverse", interval=8, format="q16.16"),
    "fitted, ECP5": lambda: pendulum(
        "inverse_dynamics_derivatives", interval=12, format="fitted", device="ecp5_85k"
    ),
    "board": lambda: pendulum("forward_dynamics", interval=4).board(),
    "seven functions": lambda: fl.multifunction(fl.load("double_pendulum"), interval=8),
    "limbs with a pause": lambda: fl.accelerator(
        fl.load("hyq"), "inverse_dynamics", interval=9, format="fitted", arrays="limbs"
    ),
    "derivatives of iiwa14": lambda: fl.accelerator(fl.load("iiwa14"), DIFD, interval=12),
    "network of HyQ": lambda: fl.multifunction(fl.load("hyq"), interval=24),
    "network of HyQ in arrays": lambda: fl.multifunction(
        fl.load("hyq"), interval=25, arrays="auto"
    ),
}


def digests(design, folder):
    """The first digits of SHA-256 of each file that a design consists of, by its name."""
    written = sorted(DESIGNS[design]().write(folder, 5))
    return {
        path.name: sha256(path.read_bytes()).hexdigest()[:DIGITS]
        for path in written
        if path.suffix in KINDS
    }


@pytest.mark.parametrize("design", repeated([*DESIGNS], 7))
def test_files_are_those_of_the_record(design, tmp_path):
    found, wanted = digests(design, tmp_path), EMITTED[design]
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []


def main():
    table = {}
    for design in DESIGNS:
        with TemporaryDirectory() as folder:
            table[design] = digests(design, folder)
    FILE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
