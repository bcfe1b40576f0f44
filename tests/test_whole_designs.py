"""Estimates of whole designs are near what Yosys counted, by the record of
benchmarks/whole_designs.py.
"""

import csv
import sys
from pathlib import Path

import pytest
from repetition import repeated

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import whole_designs

NEAR = 0.10
ROWS = [*csv.DictReader(whole_designs.RECORD.open())]


def test_the_record_is_of_six_designs_or_more_on_both_devices():
    recorded = [(row["device"], row["robot"], row["function"], row["interval"]) for row in ROWS]
    wanted = {
        (device, *map(str, design))
        for design in whole_designs.DESIGNS
        for device in whole_designs.TARGETS
    }
    assert {*recorded} == wanted
    assert len(recorded) == len(wanted)
    assert len(whole_designs.DESIGNS) >= 6
    assert len(whole_designs.TARGETS) == 2


@pytest.mark.parametrize("row", repeated(range(len(ROWS)), 10))
def test_estimates_are_near_the_counts_of_the_record(row):
    counted = ROWS[row]
    design = whole_designs.WholeDesign(
        counted["robot"], counted["function"], int(counted["interval"])
    )
    total = design.on(counted["device"]).cost.total
    for name, estimate in zip(whole_designs.COUNTED[1:3], total[1:3], strict=True):
        assert estimate == pytest.approx(int(counted[name]), rel=NEAR), name
    blocks = int(counted["blocks of RAM"])
    assert total.memories == (blocks if counted["device"] == "ecp5_85k" else 0)
