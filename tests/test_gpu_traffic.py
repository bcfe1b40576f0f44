"""The model of a GPU's caches in benchmarks/, and what kernels move by it."""

import sys

import numpy as np
import pytest
from documents import ROOT
from repetition import repeated
from test_cuda import made, random_inputs, robot_program

import featherlane as fl
from featherlane.backends.cuda import column_groups, sectors, stages

sys.path.insert(0, str(ROOT / "benchmarks"))
import caches
import ptx_traffic
from caches import L1, L2, LINE, WHOLE, Gpu, Traffic, Work

F32 = np.float32
SMALL = Gpu(multiprocessors=2, l2=64 << 10, l1=8 << 10, shared=60 << 10)


def traced(kernels):
    inputs = random_inputs(kernels.inputs, 64)
    return ptx_traffic.Traced(kernels, np.dtype(F32), inputs)


def moved(kernels, trace, first="columns", tiles=12):
    """The traffic of each kernel, with 2 blocks on each of 2 multiprocessors."""
    l2, found = L2(SMALL.l2), []
    for streams, launch in zip(trace.streams, kernels.launches, strict=True):
        order = ptx_traffic.order(launch, tiles, first)
        work = Work(launch.kernel, streams, order, launch.pairs, 2, 0)
        found.append(caches.run(work, SMALL, l2))
    l2.flush()
    return found


def dram(kernels):
    return sum(x.read + x.written for x in moved(kernels, traced(kernels)))


def test_a_cache_forgets_what_was_used_least_recently():
    l1 = L1(2 * LINE)
    assert [l1.missing(line, WHOLE) for line in (1, 2, 1, 3, 1)] == [WHOLE, WHOLE, 0, WHOLE, 0]
    assert l1.missing(2, WHOLE) == WHOLE


def test_sectors_that_are_written_in_part_are_read_before():
    l2 = L2(LINE)
    l2.write(1, (1 << 40) - 1)  # a sector, and 8 bytes of the next one
    l2.write(2, WHOLE)  # instead of line 1
    l2.read(2, 255)
    l2.flush()
    assert l2.traffic == Traffic(l2_read=8, l2_written=64 + 128, read=32, written=64 + 128)


@pytest.mark.parametrize(
    ("limits", "blocks"),
    [((4, 255, 0), 2), ((2, 32, 46_400), 4), ((1, 16, 0), 32), ((32, 64, 0), 1)],
)
def test_blocks_of_a_multiprocessor(limits, blocks):
    assert Gpu().resident(*limits) == blocks


def test_rows_of_a_small_robot_are_moved_once():
    """Three rows of 7 numbers in, three matrices of 7 x 7 out."""
    kernels = made(robot_program(fl.load("iiwa14"), "forward_dynamics_derivatives"), F32)
    assert dram(kernels) == 12 * 32 * 4 * (3 * 7 + 3 * 49)


def test_columns_of_a_tile_find_what_they_share_in_the_caches(monkeypatch):
    monkeypatch.setattr(column_groups, "MOST", 1)
    program = robot_program(fl.load("hyq", root="free"), "forward_dynamics_derivatives", "columns")
    kernels = made(program, F32)
    trace = traced(kernels)
    both = [moved(kernels, trace, order) for order in ("columns", "tiles")]
    for launch, by_columns, by_tiles in zip(kernels.launches, *both, strict=True):
        assert by_columns.l2_written == by_tiles.l2_written
        if launch.columns > 2:
            assert by_columns.read < 0.6 * by_tiles.read
        elif launch.columns == 1:
            assert by_columns.l2_read == by_tiles.l2_read


@pytest.mark.parametrize(("n", "size"), [(36, 4), (35, 4), (7, 8), (324, 4)])
def test_the_bytes_of_some_entries_are_those_of_the_model(n, size):
    """All rows of a warp at one time, and nothing else."""
    entries = np.random.default_rng(n).choice(n, n // 2, replace=False)
    l2 = L2(1 << 20)
    for at in (np.arange(32)[:, None] * n + entries).ravel() * size:
        l2.write(at // LINE, ((1 << size) - 1) << int(at % LINE))
    l2.flush()
    total = l2.traffic.read + l2.traffic.written
    assert sectors.written(n, size, entries) == total / 32


@pytest.mark.parametrize(
    "name", repeated(["inverse_dynamics_derivatives", "forward_dynamics_derivatives"])
)
def test_outputs_that_leave_as_whole_rows_move_fewer_bytes(name, monkeypatch):
    """The choice is made by a formula; both forms are counted by the model of the caches."""
    program = robot_program(fl.load("hyq", root="free"), name)
    copied = made(program, F32)
    with monkeypatch.context() as patch:
        patch.setattr(stages, "copied", lambda *given: set())
        direct = made(program, F32)
    assert len(copied.launches) > len(direct.launches)
    assert dram(copied) < 0.75 * dram(direct)


def test_whole_rows_are_not_copied():
    """Results of one kernel, and those that leave at one time."""
    for name in ("mass_matrix_inverse", "forward_dynamics"):
        assert len(made(robot_program(fl.load("hyq", root="free"), name), F32).launches) == 1
