"""The record of routed designs, and the page that shows it, by benchmarks/bitstreams.py."""

import csv
import sys
from pathlib import Path

import pytest

import featherlane as fl
from featherlane.backends.fpga import boards, devices

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import bitstreams

DOCS = Path(__file__).parents[1] / "docs"
RECORD = [*csv.DictReader((DOCS / "bitstreams.csv").open())]
PAGE = (DOCS / "from_robot_to_board.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", RECORD, ids=lambda row: f"{row['robot']}-{row['function']}")
def test_the_page_has_each_row_of_the_record(row):
    if row["board"] == "ulx3s_85f":
        assert bitstreams.speed_line(row) in PAGE
        assert bitstreams.cells_line(row) in PAGE
    else:
        name = boards.board(row["board"]).name
        (line,) = (line for line in PAGE if line.startswith(f"| {name} | ") and " of " in line)
        cells = line.strip("| ").split(" | ")
        assert cells[2:4] == [row["MHz"], row["clock MHz"]]
        assert cells[5] == f"{int(row['LUTs']):,}"


def test_a_row_has_its_key_once():
    keys = [tuple(row[name] for name in bitstreams.KEY) for row in RECORD]
    assert len({*keys}) == len(keys)


ROUTED = {  # the hashes of designs of the record when they were routed
    ("double_pendulum", "inverse_dynamics", 1): 0x99C43E6544621DAE,
    ("iiwa14", "inverse_dynamics", 4): 0x7BD06DABE9A032CC,
    ("iiwa14", "forward_dynamics", 13): 0x61DFBA8CD567F133,
    ("hyq", "inverse_dynamics", 8): 0x5154AC68EC876098,
}


@pytest.mark.parametrize("key", ROUTED)
def test_designs_of_the_record_are_those_of_today(key):
    """The hash of a design stands in its netlist: with another one, tools place and route anew, and
    rows of the record are of another circuit.
    """
    robot, function, interval = key
    made = fl.accelerator(fl.load(robot), function, interval=interval, board="ulx3s")
    assert made.board_design.serial.hash == ROUTED[key]


@pytest.mark.parametrize("row", RECORD, ids=lambda row: f"{row['robot']}-{row['function']}")
def test_speeds_are_those_of_the_clock_of_the_board(row):
    """It is below what routing reached by the jitter, and by what the PLL's divisors leave."""
    clock, board = float(row["clock MHz"]), boards.board(row["board"])
    reached = float(row["MHz"])
    assert 0.99 * reached < clock / (1 - devices.load(board.device).jitter / 100) < reached + 0.01
    assert float(row["million states/s"]) == pytest.approx(clock / int(row["interval"]), abs=0.051)
    assert reached >= 60
    assert row["states equal"] == row["states at the pins"] != ""


@pytest.mark.parametrize(
    ("robot", "function", "name"),
    [
        ("iiwa14", "inverse_dynamics", "iiwa14 ID"),
        ("iiwa14", "forward_dynamics", "iiwa14 FD"),
        ("iiwa14", "forward_dynamics_derivatives_from", "iiwa14 diFD"),
        ("hyq", "inverse_dynamics", "HyQ ID"),
    ],
)
def test_the_comparison_with_a_processor_has_the_speeds_of_the_record(robot, function, name):
    rows = [row for row in RECORD if (row["robot"], row["function"]) == (robot, function)]
    assert rows
    for row in rows:
        start = f"| {name}, interval {row['interval']} | "
        (line,) = (line for line in PAGE if line.startswith(start))
        assert line.startswith(f"{start}{row['million states/s']} | {row['latency us']} | ")
