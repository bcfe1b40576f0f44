"""Loops compiled here: built once, kept in featherlane's cache folder, called with arrays."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from featherlane.backends.cache import folder

HERE = Path(__file__).parent
ALWAYS = ("-w", "-fPIC", "-shared", "-pthread")
POINTER, LONG = ctypes.c_void_p, ctypes.c_long
NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+))(?![\w.])")


def compiler(*names: str) -> str | None:
    return next((found for found in map(shutil.which, names) if found), None)


@cache
def _without_cache() -> Path:
    return Path(tempfile.mkdtemp())


def kept(name: str = "") -> Path:
    """Where what was built is kept: featherlane's cache folder, if there is one."""
    return (folder() or _without_cache()) / "peers" / name


def place(source: str, flags: Sequence[str], link: Sequence[str] = ()) -> Path:
    """Where a library made of one source text in C++ is, once it is built. Raises RuntimeError
    where there is no compiler.
    """
    program = compiler("clang++", "g++")
    if program is None:
        raise RuntimeError("there is no clang++ or g++")
    headers = "".join(path.read_text() for path in sorted(HERE.glob("*.h")))
    key = f"{source} {headers} {program} {flags} {link} {_processor()}"
    return kept() / f"loop_{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"


Recipe = tuple[str, list[str], list[str]]  # a source, what the compiler is told, and the linker


class OfLibraries:
    """A peer that calls libraries of C++, which are built here: some minutes."""

    def recipes(self) -> list[Recipe]:
        """Of all libraries."""
        raise NotImplementedError

    def setup(self) -> None:
        for recipe in self.recipes():
            shared_library(*recipe)

    def built(self) -> bool:
        return all(place(*recipe).exists() for recipe in self.recipes())


def shared_library(
    source: str, flags: Sequence[str], link: Sequence[str] = (), limit: float | None = None
) -> tuple[Path, float]:
    """A library made of one source text in C++, and the seconds that this took, now or when it
    went into the cache.

    Raises RuntimeError where there is no compiler, with its first complaint, or where it takes
    more than `limit` seconds.
    """
    made = place(source, flags, link)
    took = made.with_suffix(".seconds")
    if made.exists():
        return made, float(took.read_text()) if took.exists() else 0.0
    made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = made.with_suffix(f".{os.getpid()}")
    start = time.perf_counter()
    command = [str(compiler("clang++", "g++")), *flags, *ALWAYS, f"-I{HERE}"]
    command += ["-x", "c++", "-", "-x", "none", "-o", str(new), *link]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"its code is not compiled in {limit:.0f} s") from None
    if done.returncode:
        why = [line for line in done.stderr.splitlines() if "error" in line]
        raise RuntimeError(f"the loop does not compile: {(why or ['?'])[0]}")
    seconds = time.perf_counter() - start
    took.write_text(f"{seconds:.3f}")
    new.rename(made)
    return made, seconds


def single(code: str) -> str:
    """Code in C with constants of single precision."""
    return NUMBER.sub(r"\1f", code)


def _processor() -> str:
    """What -march=native stands for."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("flags")), "")


class Loop:
    """A Batch of batch.h on arrays that are there for as long as it runs."""

    def __init__(self, library: Path, make: Callable[[Any], int | None]) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.run.argtypes = (POINTER, ctypes.c_char_p, LONG, LONG, *[POINTER] * 6)
        self._library.destroy.argtypes = (POINTER,)
        self._batch = POINTER(make(self._library))

    def passes(
        self, name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[int], None]:
        """A call that computes the batch a number of times. inputs: q, v, u."""
        arrays = [*inputs, *outputs]
        assert all(x.flags.c_contiguous for x in arrays)
        absent = [None] * (3 - len(outputs))
        pointers = [POINTER(x.ctypes.data) for x in arrays] + absent
        before = (self._batch, name.encode())
        batch = LONG(len(inputs[0]))
        run = self._library.run

        def call(passes: int, arrays: Sequence[np.ndarray] = arrays) -> None:
            if run(*before, passes, batch, *pointers):
                raise RuntimeError(f"the loop has no {name}")

        return call

    def close(self) -> None:
        if self._batch:
            self._library.destroy(self._batch)
            self._batch = POINTER(None)


def made(library: Any, argtypes: Sequence[Any], *arguments: Any) -> int:
    """What the library's `make` returns. Raises RuntimeError with what it complains of."""
    error = ctypes.create_string_buffer(1000)
    library.make.restype = POINTER
    library.make.argtypes = (*argtypes, ctypes.c_char_p, ctypes.c_int)
    result = library.make(*arguments, error, len(error))
    if not result:
        raise RuntimeError(error.value.decode())
    return int(result)
