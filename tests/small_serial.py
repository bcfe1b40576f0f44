"""The small module behind a serial line, with which the link and its driver are tested."""

from functools import cache

import numpy as np
from small_core import results_of, small_core, tasks_of, without_tags

from featherlane.backends.fpga.serial.self_test import plan_of
from featherlane.backends.fpga.serial.wrapper import SerialCore


@cache
def serial(core=small_core, bit=64, pause=9):
    tasks = tasks_of(16, 3)
    return SerialCore(core(), plan_of(core(), without_tags(tasks), results_of(tasks)), bit, pause)


def tiny(word):
    """The result of a task's word of the small module, both as bytes."""
    design = serial()
    inputs = design.tasks.decode(np.frombuffer(word, np.uint8)[None])
    results = {"tag": inputs["tag"], **results_of({**inputs, "op": inputs["op"].astype(int)})}
    answer = np.zeros((1, design.results.size), np.uint8)
    design.results.encode(results, answer)
    return answer.tobytes()


def check_batch(device, count=300):
    """A batch is right to the bit."""
    tasks = tasks_of(count, 1)
    run = device.run(without_tags(tasks))
    for name, x in results_of(tasks).items():
        assert np.array_equal(run.results[name], x), name
    assert run.lost == np.count_nonzero(tasks["x"] == -64)
    return run
