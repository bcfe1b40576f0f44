"""Numbers that stand on several pages are those of the file that was measured."""

import csv
import re

import pytest
from documents import ROOT

DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FUNCTIONS = ("ID", "FD", "M", "Minv", "dID", "dFD")


def measured(name):
    """The facts and the rows of a CSV file of docs/."""
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
    facts = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    return facts, list(csv.DictReader(line for line in lines if not line.startswith("#")))


FACTS, ROWS = measured("against_pinocchio.csv")
TIMES = {(r["robot"], r["root"], r["who"], r["function"]): float(r["ns_per_state"]) for r in ROWS}
ROBOTS = list(dict.fromkeys((row["robot"], row["root"]) for row in ROWS))


def ratio(robot, dtype, function):
    return TIMES[*robot, "pinocchio", function] / TIMES[*robot, dtype, function]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("robot", ROBOTS, ids=" ".join)
def test_the_table_of_the_readme_is_what_was_measured(robot):
    lines = README.splitlines()
    at = lines.index(next(x for x in lines if x.startswith("| **{}, {} root**".format(*robot))))
    theirs, *ours = map(cells, lines[at : at + 3])
    numbers = [float(cell.replace(",", "")) for cell in theirs[1:]]
    assert numbers == [TIMES[*robot, "pinocchio", name] for name in FUNCTIONS]
    for dtype, *told in ours:
        for name, cell in zip(FUNCTIONS, told, strict=True):
            ns, times = re.fullmatch(r"([\d,.]+) \(([\d.]+)x\)", cell).groups()
            assert float(ns.replace(",", "")) == TIMES[*robot, dtype, name]
            assert float(times) == pytest.approx(ratio(robot, dtype, name), rel=0.06)


def test_the_first_screen_tells_the_least_and_the_largest_ratio():
    told = re.search(
        r"([\d.]+) to (\d+) times .* in float64, (\d+) to (\d+) times in float32", README
    )
    ratios = [[ratio(r, t, f) for r in ROBOTS for f in FUNCTIONS] for t in ("float64", "float32")]
    found = [bound(of) for of in ratios for bound in (min, max)]
    assert list(map(float, told.groups())) == pytest.approx(found, rel=0.05)
    assert f"measured on {FACTS['date']}" in README


def test_the_suite_has_as_many_robots_and_peers_as_pages_say():
    _, rows = measured("suite.csv")
    words = {12: "twelve", 13: "thirteen"}
    robots = words[len({row["robot"] for row in rows})]
    others = words[len({row["who"] for row in rows} - {"featherlane"})]
    text = " ".join(README.split())
    assert f"featherlane on {robots} robots" in text
    assert f"with {others} other implementations" in text
    assert f"beside {others} other implementations" in (DOCS / "index.md").read_text()


def test_the_rate_in_the_browser_is_that_of_its_table():
    row = next(
        x for x in (DOCS / "browser.md").read_text().splitlines() if x.startswith("| iiwa14 ")
    )
    ns = float(cells(row)[2])
    told = re.search(r"(\d+) million states of an arm's inverse", " ".join(README.split()))
    millions = float(told[1])
    assert millions == pytest.approx(1e3 / ns, rel=0.04)


def test_a_pose_of_an_arm_takes_what_its_table_says():
    text = (DOCS / "inverse_kinematics.md").read_text()
    row = next(x for x in text.splitlines() if "16 restarts (the default)" in x)
    assert "an arm with seven joints takes about a microsecond" in " ".join(README.split())
    assert 0.5 < float(cells(row)[3]) < 1.5
