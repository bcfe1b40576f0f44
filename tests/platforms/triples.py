"""Is there machine code for ten systems, and does it need nothing but the C library?

    python -m tests.platforms.triples [--systems s390x-linux ...] [--robots iiwa14 chain ...]

Every function of the table is made for each system as on that system itself: of each robot, in
both dtypes, for a batch and for one state, and so are the call front and the thread pool. Nothing
runs. The symbols that the object files leave to the linker are compared with a list: all are
functions, which a linker's stubs reach anywhere, and no object of CPython or NumPy is among them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from unittest import mock

import numpy as np

import featherlane as fl
from featherlane.backends.cpu import addresses, linked, native
from featherlane.backends.cpu.call import selftest, vectorcall
from featherlane.backends.cpu.threads import pool_ir
from featherlane.backends.llvm import targets
from featherlane.functions import kernels as variant_kernels
from featherlane.functions.table import TABLE, Variant

from .objects import undefined

AVX2 = dict.fromkeys(("avx", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt"), True)
RISCV = dict.fromkeys("mafdc", True)
# The triple, the processor and what it has, in LLVM's names
SYSTEMS = {
    "x86_64-linux": ("x86_64-unknown-linux-gnu", "x86-64", AVX2),
    "x86_64-macos": ("x86_64-apple-macosx11.0.0", "x86-64", AVX2),
    "x86_64-windows": ("x86_64-pc-windows-msvc", "x86-64", {}),
    "x86_64-freebsd": ("x86_64-unknown-freebsd", "x86-64", {}),
    "aarch64-linux": ("aarch64-unknown-linux-gnu", "generic", {"neon": True}),
    "aarch64-macos": ("arm64-apple-macosx11.0.0", "apple-m1", {}),
    "aarch64-windows": ("aarch64-pc-windows-msvc", "generic", {"neon": True}),
    "riscv64-linux": ("riscv64-unknown-linux-gnu", "generic-rv64", RISCV),
    "ppc64le-linux": ("powerpc64le-unknown-linux-gnu", "pwr8", {}),
    "s390x-linux": ("s390x-unknown-linux-gnu", "z13", {}),
}
ROBOTS = ("double_pendulum",)  # others by --robots; chain: one of 60 links, in recorded steps
# What LLVM calls on its own: of the C library, the probe of Windows' stack, a mark of code that
# computes with floats there, and the base of a linker's table
ALLOWED = {"memcpy", "memset", "memmove", "fma", "fmaf", "rint", "rintf", "sqrt", "sqrtf"}
ALLOWED |= {"__chkstk", "_fltused", "_GLOBAL_OFFSET_TABLE_", ".TOC."}
HOST = targets.host
BATCH = 40  # states, more than all lanes


class Unloaded:
    """Code for another system in place of `jit.MachineCode`: a loop of it computes nothing."""

    nothing = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(lambda *words: None)
    words = (ctypes.c_int64 * 64)(*[1] * 64)

    def __init__(self, names):
        self._data = {"slots", "work"}.intersection(names)

    def address_of(self, name):
        if name in self._data:
            return ctypes.addressof(self.words)
        return ctypes.cast(self.nothing, ctypes.c_void_p).value

    @property
    def address(self):
        return self.address_of("loop")


class System:
    """The package as on another system, whose object files are looked at instead of loaded."""

    def __init__(self, name):
        self.name, self.target = name, targets.host_target(*SYSTEMS[name])
        self.wanted = Counter()  # symbols
        self.files = 0

    def compiled(self, ir):
        with mock.patch.object(targets, "host", HOST):  # for whom LLVM's code generator is made
            image = targets.machine_code(addresses.with_table(ir), self.target)
        self.wanted.update(undefined(image))
        self.files += 1
        return image

    @contextmanager
    def here(self):
        settings = {"FEATHERLANE_CACHE": "off", native.VARIABLE: "numpy"}
        with (
            mock.patch.dict(os.environ, settings),
            mock.patch.object(targets, "host", return_value=self.target),
            mock.patch.object(variant_kernels, "_kernels", {}),
            mock.patch.object(linked, "machine_code", self.compiled),
            mock.patch.object(linked, "linked", lambda image, names=("loop",): Unloaded(names)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # results are not computed
            yield

    def make_all(self, robot, names=tuple(TABLE), dtypes=(np.float64, np.float32)):
        """Makes functions of a robot for a batch and for one state."""
        with self.here():
            model = fl.chain(60, seed=0) if robot == "chain" else fl.load(robot)
            for name in names:
                for dtype in dtypes:
                    make(model, name, dtype)

    def make_others(self):
        """Makes the code that belongs to no robot."""
        with self.here():
            for text in (vectorcall.source(), pool_ir.source(), selftest.LOOP):
                self.compiled(text)

    def complaints(self):
        return sorted(set(self.wanted) - ALLOWED)


def make(model, name, dtype):
    takes, frame = TABLE[name].takes, model.frame_names[-1]
    options = {
        "frame": frame if "frame" in takes else None,
        "reference": "world" if "reference" in takes else None,
        "wrt": "mass" if "wrt" in takes else None,
    }
    function = model._function(Variant(name, **options))
    for states in (BATCH, 1):
        inputs = [np.zeros((states, *core), dtype) for core in function.inputs.values()]
        outputs = [np.zeros((states, *core), dtype) for core in function.outputs.values()]
        function._form(np.dtype(dtype), states).run(*inputs, out=tuple(outputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS])
    parser.add_argument("--robots", nargs="+", default=[*ROBOTS])
    arguments, wrong, files = parser.parse_args(), 0, 0
    for name in arguments.systems:
        start, system = time.perf_counter(), System(name)
        system.make_others()
        for robot in arguments.robots:
            system.make_all(robot)
        wanted = ", ".join(sorted(system.wanted)) or "nothing"
        print(f"{name}: {system.files} files in {time.perf_counter() - start:.0f} s want {wanted}")
        wrong, files = wrong + bool(system.complaints()), files + system.files
    verdict = "want nothing but the C library" if not wrong else f"are wrong on {wrong} systems"
    print(f"{files} object files for {len(arguments.systems)} systems {verdict}.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
