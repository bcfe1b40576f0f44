"""The benchmarks' way to a GPU, with a driver that answers as NVIDIA's and emulates kernels."""

import enum
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from documents import ROOT
from gpu_emulator import EmulatedDriver

from featherlane.backends.cuda import calls, copies, free_memory
from featherlane.backends.cuda import driver as drivers
from featherlane.backends.cuda.driver import Properties, StreamState
from featherlane.errors import DeviceError

sys.path.insert(0, str(ROOT / "benchmarks"))
import gpu
import gpu_card
import gpu_cells
import gpu_mappings
import gpu_pack
import gpu_questions
import gpu_rates
import gpu_results
import gpu_smoke
import gpu_tools
from gpu_card import Card
from gpu_cells import Bench

ATTRIBUTES = (
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
    "MULTIPROCESSOR_COUNT",
    "CLOCK_RATE",
    "L2_CACHE_SIZE",
)
ENUMS = {  # those of cuda.bindings.driver that the benchmarks name
    "CUdevice_attribute": [f"CU_DEVICE_ATTRIBUTE_{x}" for x in ATTRIBUTES],
    "CUfunction_attribute": ["CU_FUNC_ATTRIBUTE_NUM_REGS", "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"],
    "CUstreamCaptureMode": ["CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"],
}


class Answering(EmulatedDriver):
    """An emulated driver with the functions that the benchmarks ask for by name. Work of a stream
    that is captured is kept, and done when the graph is launched. fault: a function that fails.
    """

    def __init__(self):
        super().__init__()
        self.cuda = SimpleNamespace(**{x: enum.Enum(x, names) for x, names in ENUMS.items()})
        self.log, self.fault = [], ""
        self.graphs, self.events, self.open = {}, {}, None
        self.now, self.works = 0.0, 0

    def ask(self, device, function, *arguments):
        self.log.append(function)
        if function == self.fault:
            raise DeviceError(f"NVIDIA's driver reports ILLEGAL_ADDRESS in {function}")
        return getattr(self, function)(*arguments)

    def properties(self, device):
        return Properties(132, 227 << 10, 80 << 30)

    def state_of(self, device, stream):
        return StreamState(stream, self.open is not None)

    def launch(self, *arguments):
        if self.open is None:
            self.now += 1e-3  # milliseconds, so that each launch takes one microsecond
            self.works += 1
            super().launch(*arguments)
        else:
            self.open.append(arguments)

    def wait(self, device, stream):
        assert self.open is None, "a stream that is captured cannot be waited for"
        if self.fault == "cuStreamSynchronize":
            raise DeviceError("NVIDIA's driver reports ILLEGAL_ADDRESS")

    def cuDeviceGet(self, number):
        return number

    def cuDeviceGetName(self, length, device):
        return b"a card\0" + bytes(length - 7)

    def cuDeviceGetAttribute(self, what, device):
        return 1_980_000 if "CLOCK" in what.name else 9

    def cuDriverGetVersion(self):
        return 13000

    def cuMemGetInfo(self):
        return 1 << 30, 2 << 30

    def cuFuncGetAttribute(self, what, function):
        return 40 if "REGS" in what.name else 0

    def cuMemsetD8Async(self, address, byte, size, stream):
        data = np.full(size, byte, np.uint8)
        self.to_device(0, stream, address, data.ctypes.data, size)
        self.now += 1e-3

    def cuMemcpyDtoDAsync(self, to, source, size, stream):
        self.now += 1e-3

    def cuEventCreate(self, flags):
        self.events[len(self.events)] = None
        return len(self.events) - 1

    def cuEventRecord(self, event, stream):
        self.events[event] = self.now

    def cuEventSynchronize(self, event):
        assert self.events[event] is not None

    def cuEventElapsedTime(self, begin, end):
        return self.events[end] - self.events[begin]

    def cuEventDestroy(self, event):
        self.events[event] = None

    def cuStreamBeginCapture(self, stream, mode):
        self.open = []

    def cuStreamEndCapture(self, stream):
        graph, self.open = self.open, None
        return graph

    def cuGraphInstantiate(self, graph, flags):
        self.graphs[len(self.graphs)] = graph
        return len(self.graphs) - 1

    def cuGraphLaunch(self, graph, stream):
        for arguments in self.graphs[graph]:
            self.launch(*arguments)

    def cuGraphExecDestroy(self, graph):
        self.graphs[graph] = None

    def cuGraphDestroy(self, graph):
        graph.clear()


@pytest.fixture
def card(monkeypatch):
    """A card with that driver; little is timed, since each launch is emulated."""
    api = Answering()
    for module in (drivers, calls, copies, free_memory):
        monkeypatch.setattr(module, "driver", lambda: api)
    for name, value in {"LEAST": 0.0, "ROUNDS": 1, "REPLAYED": 2, "WARM": 0.01, "HEAT": 99}.items():
        monkeypatch.setattr(gpu_card, name, value)
    return Card()


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder, f32 = tmp_path_factory.mktemp("pack"), ("float32",)
    derivatives = ("inverse_dynamics_derivatives",)
    wanted = [
        gpu_pack.Wanted("double_pendulum", ("inverse_dynamics",), f32, form="pitch"),
        gpu_pack.Wanted("double_pendulum", ("forward_dynamics",), f32, form="lanes"),
        gpu_pack.Wanted("double_pendulum", (*derivatives, "forward_dynamics_derivatives"), f32),
        gpu_pack.Wanted("double_pendulum", derivatives, f32, ("team:2",)),
    ]
    gpu_pack.write(folder, wanted)
    return folder


@pytest.fixture
def bench(card, pack, monkeypatch):
    """Cells of few states, which count as large."""
    few = {"BATCHES": (40,), "LARGE": 40, "LATENCY": (1,), "REPLAYED": 2}
    for module in (gpu_rates, gpu_smoke, gpu_mappings):
        for name in few.keys() & vars(module).keys():
            monkeypatch.setattr(module, name, few[name])
    monkeypatch.setattr(gpu_questions, "ALONE", 40)
    monkeypatch.setattr(gpu_questions, "LONGEST", 512)
    monkeypatch.setattr(gpu_questions, "IN_CACHE", 8)
    monkeypatch.setattr(gpu_questions, "BLOCKS", 2)
    monkeypatch.setattr(gpu_questions, "WARPS", (1,))
    monkeypatch.setattr(gpu_questions, "COPIED", 1 << 10)
    return Bench(card, pack, ("double_pendulum",), (), time.monotonic() + 600)


def measured(name, bench):
    rows = gpu_cells.rows(gpu.PARTS[name].cells(bench), bench)
    rows = [row for row in rows if "begun" not in row]
    assert rows, name
    assert not [row for row in rows if gpu_results.is_bad(row)], rows
    return rows


@pytest.mark.parametrize("name", ["device", "lanes", "pitch", "graph", "one call", "compiling"])
def test_parts_of_the_smoke_test_on_a_card(name, bench):
    rows = measured(name, bench)
    if name in ("lanes", "pitch"):
        assert (rows[0]["registers"], rows[0]["local_bytes"]) == (40, 0)
    if name == "graph":
        assert bench.gpu.api.log.count("cuGraphLaunch") == 1


def test_rates_of_a_card(bench):
    """Shares come from counts of lines and bytes, and from the ceilings that are measured first."""
    rows = measured("rates", bench)
    assert {row["function"] for row in rows} == {
        "inverse_dynamics_derivatives",
        "forward_dynamics_derivatives",
    }
    assert all(row["seconds"] == pytest.approx(1e-6) for row in rows)  # one launch each
    facts = bench.files("", ("float32",))[0]
    share = facts.operations * 40 / 1e-6 / gpu_questions.arithmetic(bench.gpu)
    assert rows[0]["share_of_arithmetic"] == pytest.approx(share)
    assert rows[0]["bytes_a_state"] == facts.row_bytes + facts.scratch_bytes
    assert rows[0]["share_of_memory"] > 0


def test_questions_mappings_and_latency_of_a_card(bench):
    assert {row["mapping"] for row in measured("latency", bench)} == {"lanes", "team:2"}
    asked = {row["question"] for row in measured("questions", bench)}
    assert {"bandwidth of memory", "straight-line code", "a call in a CUDA graph"} <= asked
    rows = measured("mappings", bench)
    assert all(row["cycles"] == pytest.approx(1980) for row in rows)


def test_clocks_are_raised_before_all_cells(card):
    card.warm()
    assert card.api.log.count("cuMemsetD8Async") >= 20


def test_a_capture_that_fails_is_ended(card):
    def fails():
        raise DeviceError("refused")

    with pytest.raises(DeviceError, match="refused"), card.graph(fails):
        pass
    assert card.api.log[-2:] == ["cuStreamBeginCapture", "cuStreamEndCapture"]


def test_a_lost_card_ends_the_part(bench):
    bench.gpu.api.fault = "cuStreamSynchronize"
    rows = list(gpu_cells.rows(gpu.PARTS["lanes"].cells(bench), bench))
    assert rows[1]["value"].startswith("failed: DeviceError")
    assert rows[2] == {"lost": 0}
    assert len(rows) == 3


def test_tools_are_called_with_the_function(bench, monkeypatch):
    called = []

    def run(command, **_):
        called.append(command)
        return SimpleNamespace(returncode=9, stdout="", stderr="========= Race reported")

    monkeypatch.setattr(gpu_tools.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(gpu_tools.subprocess, "run", run)
    cells = list(gpu.PARTS["races"].cells(bench))
    row = cells[0].measure()
    assert row["value"] == "failed with status 9: ========= Race reported"
    assert called[0][:3] == ["compute-sanitizer", "--tool", "racecheck"]
    assert called[0][-3:] == [bench.files("lanes")[0].file, "64", "1"]
