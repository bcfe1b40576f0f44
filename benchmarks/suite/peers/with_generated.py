"""Pinocchio's generated code: its functions recorded with CppAD for one robot, written as C by
CppADCodeGen, compiled here and called in a loop.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import time
from pathlib import Path

from .base import FLOAT32, FLOAT64, Case, Prepared, Unsupported
from .native import HERE, Loop, Recipe, kept, made, shared_library, single
from .with_casadi import FLAGS, LIMIT
from .with_pinocchio import CompiledLoop, on_arrays

SOURCE = HERE / "pinocchio_generator.cpp"
PREFIX = "CPPADCG_PREFIX"
PLACES = (Path("/usr/local/include"), Path("/usr/include"))
TEMPORARY = re.compile(r"\bt\d+\b")

LOOP = """
#include <cmath>
#include "batch.h"
using std::cos;
using std::sin;
static void computed(const {real}* __restrict q, const {real}* __restrict v,
                     const {real}* __restrict u, {real}* __restrict a, {real}* __restrict b,
                     {real}* __restrict c) {{
  {real} {temporaries};
{body}
}}
extern "C" void* make(int threads, char*, int) {{
  auto batch = std::make_unique<Batch<{real}>>();
  for (int k = 0; k < threads; ++k)
    batch->workers.push_back({{{{"{name}", [](const States<{real}>& s, long i) {{
      {real}* to[3] = {{}};
      for (int k = 0; k < {blocks}; ++k) to[k] = s.out[k] + i * {size};
      computed(s.q + i * {nq}, s.v + i * {nv}, s.u + i * {nv}, to[0], to[1], to[2]);
    }}}}}});
  return batch.release();
}}
EXPORT_BATCH({real})
"""


def headers() -> Path | None:
    """Where the headers of CppADCodeGen and CppAD are."""
    given = os.environ.get(PREFIX)
    places = (Path(given) / "include", *PLACES) if given else PLACES
    return next((at for at in places if (at / "cppad/cg.hpp").exists()), None)


class Generated(CompiledLoop):
    """The loop over code that Pinocchio's functions were recorded as."""

    heavy = True

    def __init__(self) -> None:
        super().__init__("pinocchio-generated", (FLOAT64, FLOAT32))

    def missing(self) -> str | None:
        absent = super().missing()
        if absent is None and headers() is None:
            absent = f"CppADCodeGen's headers were not found: see README.md here, and set {PREFIX}"
        return absent

    def recipes(self) -> list[Recipe]:
        """Of the library that writes code."""
        return [self.recipe(SOURCE, "-O1", f"-I{headers()}")]

    def prepare(self, case: Case) -> Prepared | Unsupported:
        start = time.perf_counter()
        body = self._code(case)
        seconds = time.perf_counter() - start
        library, building = shared_library(looped(body, case), FLAGS, limit=LIMIT)
        loop = Loop(library, lambda x: made(x, [ctypes.c_int], case.threads))
        settings = f"{body.count(';'):,} assignments in C, {' '.join(FLAGS[1:])}"
        return on_arrays(loop, case, settings, seconds + building)

    def _code(self, case: Case) -> str:
        """The statements of one state, kept: CppAD's order depends on addresses, so that another
        recording may have to be compiled again. Raises RuntimeError with what it complains of.
        """
        generator, _ = shared_library(*self.recipes()[0])
        free = int(case.model.root == "free")
        robot = Path(case.source).read_text()
        key = f"{generator.name} {robot} {free} {case.name} {real(case)}"
        to = kept() / f"code_{hashlib.sha256(key.encode()).hexdigest()[:16]}.c"
        if not to.exists():
            error = ctypes.create_string_buffer(1000)
            new = to.with_suffix(f".{os.getpid()}")
            texts = (x.encode() for x in (case.source, case.name, real(case), str(new)))
            source, name, scalar, file = texts
            write = ctypes.CDLL(str(generator)).write_code
            if write(source, free, name, scalar, file, error, len(error)):
                raise RuntimeError(error.value.decode())
            new.rename(to)
        return to.read_text()


def real(case: Case) -> str:
    return "float" if case.dtype == FLOAT32 else "double"


def looped(body: str, case: Case) -> str:
    """The code of a state, and a loop over states around it."""
    outputs, nv = case.empty(), case.model.nv
    return LOOP.format(
        body=single(body) if case.dtype == FLOAT32 else body,
        temporaries=", ".join(sorted(set(TEMPORARY.findall(body)))) or "none",
        real=real(case),
        name=case.name,
        nq=case.model.nq,
        nv=nv,
        blocks=len(outputs),
        size=nv if outputs[0].ndim == 2 else nv * nv,
    )
