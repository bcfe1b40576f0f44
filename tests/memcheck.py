"""Runs kernels, the call front and the thread pool under valgrind's memcheck, by hand:

    python tests/memcheck.py

Two programs are compared: one that only loads a robot, and one that also calls its functions.
Errors that both have are CPython's, NumPy's and lxml's. The exit status is 1 if a call adds one, or
if one has machine code of ours on its stack, which lies in no file. It takes some three minutes,
most of them in LLVM and in the interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FRAMES = 4  # functions of a stack that make two errors the same
LOADS = """
import numpy as np
import featherlane as fl
from featherlane.backends.cpu.threads.pool import thread_pool

model = fl.load("double_pendulum")
q = np.linspace(0, 1, 18).reshape(9, 2)
"""
CALLS = """
thread_pool().grow(3)
for name, arrays in (("mass_matrix", [q]), ("forward_dynamics_derivatives", [q, q, q])):
    for _ in range(3):  # the first compiles, the next go through the front
        call = getattr(model, name)
        results = call(*arrays)
        call(*[x[0] for x in arrays])
        call(*arrays, out=results)
        call(*arrays, threads=3)
        call(*[x[:, ::-1] for x in arrays])  # strides that the front hands on
        call(*[x.tolist() for x in arrays])
f_ext = {"link1": q[0].repeat(3), "link2": [1.0] * 6}
for dt in (0.1, np.array(0.1), -0.1):
    for f in (f_ext, {"link1": np.ones(5)}, {3: q}):
        for frame in ("link1", "link2", "link3"):
            for call in (
                lambda: model.step(q[0], [1.0, 2], (0, 0.5), dt, f, integrator="euler"),
                lambda: model.jacobian(q[0], frame, reference="world"),
            ):
                try:
                    call()
                except (ValueError, TypeError):
                    pass
wide = np.tile(q, (200, 1))  # shared, large results that begin on a cache line
assert np.array_equal(model.mass_matrix(wide, threads=3), model.mass_matrix(wide, threads=1))
print(type(model.__dict__.get("mass_matrix")).__name__, len(thread_pool()))
thread_pool().stop()
"""


def errors(code: str, folder: Path) -> list[ElementTree.Element]:
    """What memcheck reports of a program."""
    report = folder / "report.xml"
    command = ["valgrind", "--quiet", "--error-limit=no", "--xml=yes", f"--xml-file={report}"]
    environment = {"PYTHONMALLOC": "malloc", "FEATHERLANE_CACHE": str(folder / "cache")}
    subprocess.run(
        [*command, sys.executable, "-c", code],
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
    )
    reported = ElementTree.parse(report).findall("error")
    # Locks, LLVM's sessions and workspaces that wait are there until the process ends
    return [error for error in reported if not error.findtext("kind", "").startswith("Leak")]


def same(error: ElementTree.Element) -> tuple[str, ...]:
    """What two errors have in common that are the same: their kind and innermost functions."""
    frames = error.find("stack").findall("frame")[:FRAMES]  # type: ignore[union-attr]
    return error.findtext("kind", ""), *(f.findtext("fn") or "?" for f in frames)


def is_ours(error: ElementTree.Element) -> bool:
    """Whether code that lies in no file is on the stack."""
    return any(frame.find("obj") is None for frame in error.iterfind("stack/frame"))


def main() -> int:
    if not shutil.which("valgrind"):
        print("skipped: there is no valgrind")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = errors(LOADS, Path(folder))
        found = errors(LOADS + CALLS, Path(folder))
    known = {same(error) for error in before}
    added = Counter(same(e) for e in found if same(e) not in known or is_ours(e))
    for (kind, *functions), count in added.most_common():
        print(f"{count} x {kind}: {' < '.join(functions)}")
    print(f"{len(before)} errors without calls, {len(found)} with calls, {len(added)} added")
    return bool(added)


if __name__ == "__main__":
    sys.exit(main())
