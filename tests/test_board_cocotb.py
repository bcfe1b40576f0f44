"""Wrapped designs against masters of AXI that others wrote (cocotbext-axi), in Icarus Verilog."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from small_core import results_of, small_core, tasks_of

from featherlane.backends.fpga.board.registers import REGISTERS
from featherlane.backends.fpga.board.wrapper import WrappedCore

RUN = """
import sys
from pathlib import Path
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner
runner = get_runner("icarus")
top, folder = sys.argv[1:]
runner.build(sources=sorted(Path(folder).glob("*.sv")), hdl_toplevel=top, build_args=["-g2012"],
             timescale=("1ns", "1ps"), build_dir=folder)
results = runner.test(hdl_toplevel=top, test_module="cocotb_board", build_dir=folder)
tests, failed = get_results(results)
sys.exit(failed or tests != 3)
"""


@pytest.mark.skipif(
    not (find_spec("cocotb") and find_spec("cocotbext")),
    reason="cocotb or cocotbext-axi is not installed",
)
@pytest.mark.skipif(not shutil.which("iverilog"), reason="iverilog is not installed")
@pytest.mark.parametrize(("width", "layout"), [(8, "packed"), (32, "words")])
def test_masters_of_axi_that_others_wrote(width, layout, tmp_path):
    board = WrappedCore(small_core(), width, layout)
    for name, text in board.sources.items():
        (tmp_path / name).write_text(text)
    packets = [_packet(board, count, seed) for seed, count in enumerate((7, 1, 12))]
    case = {
        "packets": packets,
        "tasks": 20,
        "result_bytes": board.results.size,
        "constants": board.constants,
        "registers": {register.name: register.address for register in REGISTERS},
    }
    (tmp_path / "case.json").write_text(json.dumps(case))
    done = subprocess.run(
        [sys.executable, "-c", RUN, board.name, str(tmp_path)],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def _packet(board, count, seed):
    """The bytes of a packet, and of its results, as digits."""
    tasks = tasks_of(count, seed)
    buffers = []
    for layout, values in ((board.tasks, tasks), (board.results, results_of(tasks))):
        buffer = np.zeros((count, layout.size), np.uint8)
        layout.encode({**tasks, **values}, buffer)
        buffers.append(buffer.tobytes().hex())
    return buffers


def _environment(folder):
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "BOARD_CASE": str(folder / "case.json")}
