"""The cores of this process, from the files and calls of the system."""

import os
import struct

import pytest

from featherlane.backends import cores


@pytest.fixture
def system(tmp_path, monkeypatch):
    """system(threads, files): a Linux where this process may use so many hardware threads, two on
    each core, and where these files are.
    """
    monkeypatch.setattr(cores, "ROOT", tmp_path)

    def made(threads, files):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(threads)), raising=False)
        for k in range(threads):
            place = f"sys/devices/system/cpu/cpu{k}/topology/thread_siblings_list"
            files |= {place: f"{k & ~1}-{k | 1}\n"}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return cores._of_linux()

    return made


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/cpu,cpuacct"
CASES = {
    "no groups": ({}, 8),
    "no limit": ({"proc/self/cgroup": "0::/\n", f"{V2}/cpu.max": "max 100000\n"}, 8),
    "version 2": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "300000 100000\n"}, 3),
    "a group above": (
        {
            "proc/self/cgroup": "0::/a/b/c\n",
            f"{V2}/a/b/c/cpu.max": "500000 100000",
            f"{V2}/a/b/cpu.max": "max 100000",
            f"{V2}/a/cpu.max": "250000 100000",
        },
        2,
    ),
    "a container, with the host's path": (
        {"proc/self/cgroup": "0::/docker/12ab\n", f"{V2}/cpu.max": "400000 100000\n"},
        4,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/x/y\n0::/\n",
            f"{V1}/x/y/cpu.cfs_quota_us": "-1\n",
            f"{V1}/x/y/cpu.cfs_period_us": "100000\n",
            f"{V1}/x/cpu.cfs_quota_us": "600000\n",
            f"{V1}/x/cpu.cfs_period_us": "100000\n",
        },
        6,
    ),
    "half a core": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "50000 100000\n"}, 0),
    "nonsense": ({"proc/self/cgroup": "0::/a\n", f"{V2}/a/cpu.max": "much\n"}, 8),
}


@pytest.mark.parametrize(("files", "count"), CASES.values(), ids=CASES)
def test_control_groups(system, files, count):
    assert system(16, dict(files)) == count


def test_affinity_and_hyper_threads(system):
    assert system(3, {}) == 2
    assert system(1, {}) == 1


def test_there_is_at_least_one(monkeypatch):
    monkeypatch.setattr(cores, "_of_linux", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    assert cores.physical_cores.__wrapped__() == 1


def test_records_of_windows():
    """Two cores of two threads each, a NUMA node and a cache."""
    word = "Q" if struct.calcsize("P") == 8 else "I"
    record = lambda mask, relation: struct.pack(f"={word}I", mask, relation).ljust(
        2 * struct.calcsize("P") + 16, b"\0"
    )
    records = record(0b0011, 0) + record(0b1111, 1) + record(0b1100, 0) + record(0b1111, 2)
    assert cores._core_masks(records) == [0b0011, 0b1100]
