"""The number of cores that this process may compute on: by affinity, without hyper-threads, and by
the time quotas of its control groups, which limit its memory, too.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path("/")  # the root of the system's files; tests set another one


@cache
def physical_cores() -> int:
    """The cores of this process, at least 1."""
    counted = {"win32": _of_windows, "darwin": _of_macos}.get(sys.platform, _of_linux)
    return max(counted(), 1)


def _of_linux() -> int:
    """Cores of the affinity whose time the control groups grant."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # another POSIX system
        return os.cpu_count() or 1
    siblings = set()
    system = ROOT / "sys/devices/system/cpu"
    for thread in allowed:
        path = system / f"cpu{thread}/topology/thread_siblings_list"
        siblings.add(path.read_text().strip() if path.exists() else str(thread))
    return min([len(siblings), *_quotas()])


def _quotas() -> Iterator[int]:
    """The whole cores whose time each control group grants."""
    for folder in control_groups("cpu"):
        for quota, period in (_quota_v2(folder), _quota_v1(folder)):
            if quota > 0 and period > 0:
                yield quota // period


def _quota_v2(folder: Path) -> tuple[int, int]:
    """The quota and the period in microseconds, both 0 without a limit."""
    words = system_text(folder / "cpu.max").split()
    return (int(words[0]), int(words[1])) if len(words) == 2 and words[0].isdecimal() else (0, 0)


def _quota_v1(folder: Path) -> tuple[int, int]:
    words = [system_text(folder / f"cpu.cfs_{what}_us").strip() for what in ("quota", "period")]
    return (int(words[0]), int(words[1])) if all(word.isdecimal() for word in words) else (0, 0)


def _of_macos() -> int:
    """The performance cores: threads get equal parts, so all would wait for efficiency cores."""
    library = ctypes.CDLL(None)
    for name in (b"hw.perflevel0.physicalcpu", b"hw.physicalcpu"):
        count, size = ctypes.c_int(), ctypes.c_size_t(4)
        status = library.sysctlbyname(
            name, ctypes.byref(count), ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        if status == 0 and count.value > 0:
            return count.value
    return os.cpu_count() or 1


def _of_windows() -> int:
    """Cores with a logical processor in the affinity mask of this process."""
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    mask, system = ctypes.c_size_t(), ctypes.c_size_t()
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel.GetCurrentProcess())
    if not kernel.GetProcessAffinityMask(process, ctypes.byref(mask), ctypes.byref(system)):
        return os.cpu_count() or 1
    size = ctypes.c_uint32()
    kernel.GetLogicalProcessorInformation(None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    if not kernel.GetLogicalProcessorInformation(buffer, ctypes.byref(size)):
        return mask.value.bit_count()
    cores = _core_masks(buffer.raw[: size.value])
    return sum(bool(core & mask.value) for core in cores) or mask.value.bit_count()


def _core_masks(records: bytes) -> list[int]:
    """The logical processors of each core, from SYSTEM_LOGICAL_PROCESSOR_INFORMATION records: a
    mask of the word's size, the relation (0: of a core), and 16 bytes of its details.
    """
    word = ctypes.sizeof(ctypes.c_size_t)
    masks = []
    for at in range(0, len(records), 2 * word + 16):
        mask, relation = records[at : at + word], records[at + word : at + word + 4]
        if int.from_bytes(relation, sys.byteorder) == 0:
            masks.append(int.from_bytes(mask, sys.byteorder))
    return masks


# Control groups of Linux


def control_groups(controller: str) -> Iterator[Path]:
    """The folders of the control groups of this process and their ancestors, in both versions of
    control groups, that may have limits of a controller ("cpu", "memory").
    """
    for mount, group in _groups(controller):
        yield from (mount / part for part in (group, *group.parents))
        yield mount


def _groups(controller: str) -> Iterator[tuple[Path, Path]]:
    """Yields each mount of control groups and the group of this process in it. In a container the
    group may be a path of the host, which does not exist there: then the mount itself counts.
    """
    for line in system_text(ROOT / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        group = Path(path.lstrip("/"))
        if number == "0":
            yield ROOT / "sys/fs/cgroup", group
        elif controller in controllers.split(","):
            for name in (controllers, controller):
                yield ROOT / "sys/fs/cgroup" / name, group


def system_text(path: Path) -> str:
    """The contents of a file of the system, nothing if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
