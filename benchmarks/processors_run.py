"""Runs kernels that were made for a processor: in this process, or in a program of its own that an
emulator may run.

Of both kinds of runners `run` takes jobs, each a kernel with arrays of which it fills the outputs.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from object_file import standalone

from featherlane.backends.cpu.linked import linked
from featherlane.backends.cpu.steps.encode import StepProgram
from featherlane.backends.llvm.targets import TARGETS, Processor, runs_here

UNTOUCHED = 0xA5  # every byte of a result before a kernel runs
DRIVER = Path(__file__).with_name("processors_driver.c")


class Held(NamedTuple):
    """An array and all the memory that it lies in."""

    raw: np.ndarray
    view: np.ndarray

    @property
    def shift(self) -> int:
        return self.view.ctypes.data - self.raw.ctypes.data


LAYOUTS = ("dense", "shifted", "strided")


def held(shape: Sequence[int], dtype: np.dtype, layout: str = "dense") -> Held:
    """Memory for an array. shifted: its rows are not on boundaries of vectors; strided: its entries
    are not neighbours.
    """
    shape, size = tuple(shape), np.dtype(dtype).itemsize
    gaps = 2 if layout == "strided" else 1
    whole = (*shape[:-1], shape[-1] * gaps)
    count, shift = int(np.prod(whole)) * size, size if layout == "shifted" else 0
    memory = np.full(count + shift + 64, UNTOUCHED, np.uint8)
    raw = memory[-memory.ctypes.data % 64 :][: count + shift]
    return Held(raw, raw[shift:].view(dtype).reshape(whole)[..., ::gaps])


class Kernel(NamedTuple):
    """A kernel's text, and the program that it runs if it is one of recorded calls."""

    text: str
    work: StepProgram | None = None


class Job(NamedTuple):
    kernel: int  # its number among those of the runner
    states: int
    inputs: tuple[Held, ...]
    outputs: tuple[Held, ...]

    @property
    def arrays(self) -> tuple[Held, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def steps(self) -> list[int]:
        views = [held.view for held in self.arrays]
        return [x.strides[0] for x in views] + [n for x in views for n in x.strides[1:]]


class InProcess:
    """Code for a target that this processor can run too."""

    def __init__(self, target: Processor, kernels: Sequence[Kernel]) -> None:
        self.kernels, self.codes = kernels, []
        for kernel in kernels:
            names = ("loop", "loop_work", "loop_forget") if kernel.work else ("loop",)
            self.codes.append(linked(standalone(kernel.text, target), names))

    @staticmethod
    def missing(target: Processor) -> str | None:
        """Why code for a target cannot be run."""
        return None if runs_here(target) else f"this processor has no {target.name}"

    def run(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            kernel, code = self.kernels[job.kernel], self.codes[job.kernel]
            dtype = job.outputs[0].view.dtype
            parts = kernel.work.arrays(dtype) if kernel.work else None
            if parts:
                words = parts.addresses()
                (ctypes.c_int64 * len(words)).from_address(code.address_of("loop_work"))[:] = words
            places = [held.view.ctypes.data for held in job.arrays]
            word = ctypes.c_int64
            loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address)
            loop(
                (word * len(places))(*places),
                (word * 1)(job.states),
                (word * len(job.steps))(*job.steps),
                None,
            )
            if parts:
                ctypes.CFUNCTYPE(None)(code.address_of("loop_forget"))()


class Machine(NamedTuple):
    """A processor that runs programs: who compiles C for it, and what emulates it."""

    target: Processor
    compiler: str
    emulator: tuple[str, ...]

    @property
    def programs(self) -> tuple[str, str]:
        return self.compiler, self.emulator[0]

    def missing(self) -> str | None:
        """Why nothing can be run, or None."""
        absent = [name for name in self.programs if not shutil.which(name)]
        return f"{' and '.join(absent)} not installed" if absent else None


def _qemu(processor: str, model: str) -> tuple[str, ...]:
    """The command of qemu's user mode, from either of its two packages."""
    name = f"qemu-{processor}"
    static = f"{name}-static"
    return (static if shutil.which(static) else name, "-cpu", model)


EMULATED = {
    "neon": Machine(TARGETS["neon"], "aarch64-linux-gnu-gcc", _qemu("aarch64", "cortex-a53")),
    "sse2": Machine(TARGETS["sse2"], "gcc", _qemu("x86_64", "Opteron_G1")),  # at most SSE3
    "avx2": Machine(TARGETS["avx2"], "gcc", _qemu("x86_64", "Haswell")),
}


class Emulated:
    """Kernels in one program for a machine."""

    def __init__(self, made_for: Machine, kernels: Sequence[Kernel]) -> None:
        self.machine, self.kernels = made_for, kernels
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self._build()

    def _build(self) -> None:
        objects, lines, table = [], ["#include <stdint.h>"], []
        for k, kernel in enumerate(self.kernels):
            image = self.folder / f"k{k}.o"
            image.write_bytes(standalone(kernel.text, self.machine.target, f"k{k}"))
            objects.append(str(image))
            lines.append(f"void k{k}(char **, const int64_t *, const int64_t *, void *);")
            if kernel.work:
                lines.append(f"extern int64_t k{k}_work[]; void k{k}_forget(void);")
            extra = f"k{k}_work, k{k}_forget" if kernel.work else "0, 0"
            table.append(f"{{k{k}, {extra}}}")
        lines += [
            "struct kernel {",
            "  void (*loop)(char **, const int64_t *, const int64_t *, void *);",
            "  int64_t *work;",
            "  void (*forget)(void);",
            "};",
            f"static const struct kernel kernels[] = {{{', '.join(table)}}};",
        ]
        (self.folder / "driver.h").write_text("\n".join(lines) + "\n")
        options = ["-O1", "-Wall", "-Werror", "-static", "-I", str(self.folder), str(DRIVER)]
        command = [self.machine.compiler, *options, *objects, "-lm", "-o", self.program]
        subprocess.run(command, check=True)

    @property
    def program(self) -> str:
        return str(self.folder / "driver")

    def run(self, jobs: Iterable[Job]) -> None:
        jobs, files = list(jobs), (self.folder / "jobs", self.folder / "results")
        with files[0].open("wb") as file:
            for job in jobs:
                file.write(self._job(job))
        subprocess.run([*self.machine.emulator, self.program, *map(str, files)], check=True)
        given = np.fromfile(files[1], np.uint8)
        for out in (out for job in jobs for out in job.outputs):
            out.raw[:], given = given[: out.raw.size], given[out.raw.size :]
        assert not given.size

    def _job(self, job: Job) -> bytes:
        work, dtype = self.kernels[job.kernel].work, job.outputs[0].view.dtype
        head = [job.kernel, job.states, len(job.inputs), len(job.arrays), len(job.steps)]
        words = [*head, work is not None, *[x.raw.nbytes for x in job.arrays]]
        words += [x.shift for x in job.arrays] + job.steps
        parts = [np.ascontiguousarray(x) for x in work.arrays(dtype)] if work else []
        words += [x.nbytes for x in parts]
        arrays = [*parts, *[x.raw for x in job.inputs]]
        return np.array(words, np.int64).tobytes() + b"".join(x.tobytes() for x in arrays)
