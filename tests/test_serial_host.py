"""The driver behind a serial line as a stranger meets it: arrays of any kind, interruptions,
threads, ports that are busy, closed, unplugged or not there, and folders without a bitstream.
"""

import json
import os
import sys
import threading

import documents
import numpy as np
import pytest
from link_model import LinkModel, ModelledLine
from small_core import results_of, tasks_of, without_tags
from small_serial import check_batch, serial, tiny

from featherlane.accelerators import host
from featherlane.backends.cache import digest
from featherlane.backends.fpga.serial import frames
from featherlane.backends.fpga.serial.host import SerialDriver
from featherlane.backends.fpga.serial.transport import SerialPort
from featherlane.errors import DeviceError


def lines_of(run):
    """The lines of Python of the package that a call runs."""
    count, package = 0, str(documents.ROOT / "featherlane")

    def traced(frame, event, argument):
        nonlocal count
        count += event == "line"
        return traced if frame.f_code.co_filename.startswith(package) else None

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def test_a_state_takes_few_lines_of_python():
    """However long its frames are: the line is slower than that."""
    model = LinkModel(serial().plan, lambda word: bytes([word[0] >> 2, 0, 0]))  # its tag
    device = SerialDriver(serial().facts, ModelledLine(model, {}, {}))
    few, many = (lines_of(lambda n=n: device.run(without_tags(tasks_of(n)))) for n in (100, 200))
    assert few < many < few + 100 * 120  # those of the model of the board among them
    short, long = (lines_of(lambda n=n: frames.crc(bytes(n))) for n in (10, 1000))
    assert short == long


class HeldLine(ModelledLine):
    """A line behind which a result comes a while after its task, one at a read."""

    def __init__(self, model):
        super().__init__(model, {}, {})
        self.held, self.interrupted = [], False

    def write(self, data):
        for value in data:
            self.model.byte(value)
            answer, self.model.answers = self.model.answers, b""
            if answer[:1] == bytes([frames.FACTS]):
                fields = frames.answer_fields(answer[1:-2]) | {"under_way": len(self.held)}
                sizes = frames.ANSWER.items()
                payload = b"".join(fields[name].to_bytes(n, "little") for name, n in sizes)
                self.answers += frames.frame(frames.FACTS, payload)
            elif answer:
                self.held.append(answer)

    def read(self, count):
        if self.interrupted:
            raise KeyboardInterrupt
        if self.held and not self.answers:
            self.answers = self.held.pop(0)
        return super().read(count)

    def quiet(self):
        self.held.clear()
        super().quiet()


def test_after_an_interruption_no_result_is_of_an_older_task():
    """Results of the tasks before come later, with the numbers of new ones."""
    line = HeldLine(LinkModel(serial().plan, tiny))
    device = SerialDriver(serial().facts, line)
    before = {"op": [1, 1, 1], "x": [1.0, 2.0, 3.0]}
    write = line.write

    def interrupted(data):
        write(data)
        line.interrupted = data[:1] == bytes([frames.TASK])

    line.write = interrupted
    with pytest.raises(KeyboardInterrupt):
        device.run(before)
    line.write, line.interrupted = write, False
    assert len(line.held) == 3
    assert device({"op": 1, "x": [4.0, 5.0, 6.0]})["y"].tolist() == [8.0, 10.0, 12.0]


def test_a_state_takes_one_way_there_and_back():
    """A port of USB takes a millisecond each way: a run that ended well needs no query before."""
    line = ModelledLine(LinkModel(serial().plan, tiny), {}, {})
    device, wrote = SerialDriver(serial().facts, line), []
    write = line.write
    device.run({"op": 1, "x": 1.0})
    line.write = lambda data: (wrote.append(data), write(data))
    assert device({"op": 1, "x": 3.0})["y"] == 6.0
    assert [len(data) for data in wrote] == [7 + 3]  # a task, and a query behind it


def test_an_answer_that_is_lost_is_asked_for_again():
    line = ModelledLine(LinkModel(serial().plan, tiny), {}, {})
    device = SerialDriver(serial().facts, line)
    device.run({"op": 1, "x": 1.0})
    for way, byte in ((0, 7 + 1), (1, 7 + 2)):  # of the query, and of its answer
        line.faults[way][line.count[way] + byte] = 1
        assert device({"op": 1, "x": 3.0})["y"] == 6.0
        assert device.run({"op": 1, "x": 4.0}).counters["repeated"] == 0


def test_a_bitstream_that_is_loaded_meanwhile_is_told():
    model = LinkModel(serial().plan, tiny)
    device = SerialDriver(serial().facts, ModelledLine(model, {}, {}))
    check_batch(device, 10)
    model.plan = model.plan._replace(hash=model.plan.hash ^ 1)
    with pytest.raises(DeviceError, match=r"the board is not tiny_serial: its hash is .* another"):
        device.run(without_tags(tasks_of(2)))


def test_threads_that_share_a_driver_have_their_results():
    model = LinkModel(serial().plan, tiny)
    device, right = SerialDriver(serial().facts, ModelledLine(model, {}, {})), []

    def work(seed):
        tasks = tasks_of(60, seed)
        found = device(without_tags(tasks))["y"]
        right.append(np.array_equal(found, results_of(tasks)["y"]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 8


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x.astype(np.float32),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1][::-1],
        lambda x: x.astype(">f8"),
        lambda x: x.tolist(),
    ],
    ids=["float32", "columns", "strides", "backwards", "bytes", "lists"],
)
def test_arrays_of_any_kind_are_states(changed):
    device = SerialDriver(serial().facts, ModelledLine(LinkModel(serial().plan, tiny), {}, {}))
    x = tasks_of(12, 3)["x"].reshape(3, 4)
    wanted = device({"op": 1, "x": x})["y"]
    assert np.array_equal(device({"op": 1, "x": changed(x)})["y"], wanted)
    assert np.array_equal(wanted, 2 * x)
    alone = device({"op": 1, "x": changed(x[:1, :1])})["y"]
    assert np.array_equal(alone, wanted[:1, :1])
    assert device({"op": 1, "x": x[0, 0]})["y"] == wanted[0, 0]


@pytest.mark.parametrize(
    ("arguments", "options", "wanted"),
    [
        ([np.zeros(3)], {}, r"^inputs is array\(.*: wanted a dict of arrays, op, x by name"),
        ([np.zeros(3)] * 3, {}, r"^inputs is array\(.*: wanted a dict of arrays, op, x by name"),
        ([0, np.zeros(3)], {}, "^inputs is 0: wanted a dict of arrays, op, x by name"),
        ([{"op": 0, 1: 0}], {}, "^inputs has op, 1: wanted op, x by name"),
        ([{}], {}, "^inputs has nothing: wanted op, x by name"),
        ([{"op": 0, "x": 1e9}], {"saturate": "no"}, "^saturate is 'no': wanted True or False"),
        ([{"op": 0, "x": 1e9}], {"saturate": None}, "^saturate is None: wanted True or False"),
    ],
    ids=str,
)
def test_bad_calls(arguments, options, wanted):
    device = SerialDriver(serial().facts, ModelledLine(LinkModel(serial().plan, tiny), {}, {}))
    for call in (device, device.run):
        with pytest.raises(ValueError, match=wanted):
            call(*arguments, **options)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64, np.uint64])
def test_whole_numbers_of_any_kind_are_states(kind):
    device = SerialDriver(serial().facts, ModelledLine(LinkModel(serial().plan, tiny), {}, {}))
    results = device({"op": np.array([0, 1], kind), "x": np.array([1, 0], kind)})
    assert results["y"].tolist() == [1.0, 0.0]
    if kind is np.uint64:
        with pytest.raises(ValueError, match=r"x\[1\] \(state 1\) is 1\.844674407e\+19: wanted"):
            device({"op": 1, "x": np.array([0, 2**64 - 1], kind)})
        with pytest.raises(ValueError, match=r"op\[1\] \(state 1\) is 1\.844674407e\+19: wanted"):
            device({"op": np.array([0, 2**64 - 1], kind), "x": 0.0})


# A port of this computer


needs_a_port = pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals")


class Plugged:
    """A pseudo-terminal behind which the model answers, until `tasks` tasks have come."""

    def __init__(self, tasks=10**9):
        pytest.importorskip("serial", reason="pyserial is not installed")
        import tty

        self.ours, theirs = os.openpty()
        tty.setraw(theirs)
        self.name, self.left = os.ttyname(theirs), tasks
        self.theirs = theirs
        self.model = LinkModel(serial().plan, self.computed)
        threading.Thread(target=self.answer, daemon=True).start()

    def computed(self, word):
        self.left -= 1
        return tiny(word)

    def answer(self):
        while self.left > 0 and (data := os.read(self.ours, 4096)):
            for value in data:
                self.model.byte(value)
            os.write(self.ours, self.model.answers)
            self.model.answers = b""
        os.close(self.theirs)  # the cable is drawn
        os.close(self.ours)


@needs_a_port
def test_a_port_carries_the_frames():
    """The driver through pyserial and a pseudo-terminal, behind which the model answers."""
    with SerialDriver(serial().facts, SerialPort(Plugged().name, 3_000_000)) as device:
        assert not any(check_batch(device, 100).counters.values())
    with pytest.raises(DeviceError, match=r"the port /dev/\S+ is closed: connect again"):
        check_batch(device, 1)


@needs_a_port
def test_a_cable_that_is_drawn_is_told():
    device = SerialDriver(serial().facts, SerialPort(Plugged(tasks=40).name, 3_000_000))
    wanted = r"the port /dev/\S+ failed: is the board still plugged in\? Then connect again \(.+\)"
    for call in (lambda: check_batch(device, 100), device.query, device.transport.quiet):
        with pytest.raises(DeviceError, match=wanted):
            call()


@needs_a_port
def test_a_port_has_one_driver():
    """Two would take each other's answers; one that was refused leaves the port to the next."""
    facts, name = serial().facts, Plugged().name
    refused = SerialPort(name, 3_000_000)
    with pytest.raises(DeviceError, match="is another bitstream loaded"):
        SerialDriver(facts._replace(hash=1), refused)
    with (
        SerialDriver(facts, SerialPort(name, 3_000_000)),
        pytest.raises(DeviceError, match="another program has it, or a driver that was not closed"),
    ):
        SerialPort(name, 3_000_000)
    check_batch(SerialDriver(facts, SerialPort(name, 3_000_000)), 10)


@pytest.mark.parametrize(
    ("port", "seconds", "error", "wanted"),
    [
        (None, 0.25, ValueError, '^port is None: wanted a name, as "/dev/ttyUSB0" or "COM3"'),
        ("", 0.25, ValueError, "^port is '': wanted a name"),
        (3, 0.25, ValueError, "^port is 3: wanted a name"),
        ("/dev/ttyNONE", 0, ValueError, "^seconds is 0: wanted a time, above 0 and up to 60"),
        ("/dev/ttyNONE", float("nan"), ValueError, "^seconds is nan: wanted a time"),
        ("/dev/ttyNONE", "1", ValueError, "^seconds is '1': wanted a time"),
        ("/dev/ttyNONE", 1, DeviceError, "does not open at 3000000 baud: there is no such port, "),
        (__file__, 1, DeviceError, "does not open at 3000000 baud: is it a serial port, and is"),
    ],
)
def test_ports_that_are_none(port, seconds, error, wanted):
    pytest.importorskip("serial", reason="pyserial is not installed")
    with pytest.raises(error, match=wanted):
        SerialPort(port, 3_000_000, seconds)


def test_a_port_that_is_missing_is_told(monkeypatch):
    pytest.importorskip("serial", reason="pyserial is not installed")
    with pytest.raises(DeviceError, match="the port '/dev/ttyNONE' does not open at 3000000 baud"):
        SerialPort("/dev/ttyNONE", 3_000_000)
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(
        ImportError, match=r"pyserial is missing.*pip install 'featherlane\[serial\]'"
    ):
        SerialPort("/dev/ttyNONE", 3_000_000)


def test_a_folder_without_a_bitstream_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"holds no bitstream: it has no bitstream\.json; wanted"):
        host.connect(tmp_path, "/dev/ttyNONE")
    (tmp_path / "serial.json").write_text(json.dumps(serial().facts.to_json()))
    calls = (lambda: host.connect(tmp_path, "/dev/ttyNONE"), lambda: host.simulated(tmp_path))
    for call in calls:
        with pytest.raises(ValueError, match=r"holds a design, but no bitstream .bitstream\.json"):
            call()
    digests = {"sources": host.sources_digest({}), "bitstream": digest(b"bits")}
    facts = {"name": "tiny", **digests}
    (tmp_path / "bitstream.json").write_text(json.dumps(facts))
    for call in calls:
        with pytest.raises(ValueError, match=r"holds no bitstream: .*tiny\.bit"):
            call()
    (tmp_path / "tiny.bit").write_bytes(b"bits")
    for call in calls:
        with pytest.raises(ValueError, match=r"bitstream\.json' does not say the rate of a line"):
            call()
    rate = {**facts, "megahertz": 60.0, "baud": 3_000_000}
    (tmp_path / "bitstream.json").write_text(json.dumps(rate))
    with pytest.raises(ValueError, match=r"tiny_top_routed\.json' is no routed netlist"):
        host.simulated(tmp_path)
