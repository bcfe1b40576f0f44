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
    columns = "device", "robot", "function", "interval", "datapath"
    recorded = [tuple(row[name] for name in columns) for row in ROWS]
    wanted = {(device, *map(str, design[:4])) for design, device in whole_designs.pairs()}
    assert {*recorded} == wanted
    assert len(recorded) == len(wanted)
    assert len(whole_designs.DESIGNS) >= 6
    assert len(whole_designs.TARGETS) == 2


@pytest.mark.parametrize("row", repeated(range(len(ROWS)), 10))
def test_estimates_are_near_the_counts_of_the_record(row):
    counted = ROWS[row]
    design = whole_designs.WholeDesign(
        counted["robot"],
        counted["function"],
        int(counted["interval"]),
        counted["datapath"],
        counted["format"],
    )
    total = design.on(counted["device"]).cost.total
    for name, estimate in zip(whole_designs.COUNTED[1:3], total[1:3], strict=True):
        assert estimate == pytest.approx(int(counted[name]), rel=NEAR), name
    blocks = int(counted["blocks of RAM"])
    if counted["device"] == "ecp5_85k" or counted["datapath"] == "memories":
        assert total.memories == blocks
    else:
        assert total.memories == 0
