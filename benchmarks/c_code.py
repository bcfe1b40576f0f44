"""How large and how fast is generated C? Ours against CasADi's, and on microcontrollers.

On this machine: code size, time to compile and time of a call for C of this package and for C that
CasADi generates from adam's formulas, called in turn in one process, medians. On Cortex-M4 and M7
under qemu: code size, the stack of a call, and its instructions, with fused multiply-adds that are
exact (in hardware or in integers), and with a product and a sum in their place; for an arm, for
cheap arms (docs/cheap_arms.md), and for steps of HyQ on the ground where numbers are those of a
floating-point unit.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from c_machines import CORTEX, Machine
from ground import ROBOTS, states
from robots import DTYPES, SHORT, States, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.api.model import Model
from featherlane.functions.table import FUNCTIONS

FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")
EXACT, FUSED = "-ffp-contract=off", "-ffp-contract=fast"  # CasADi's C may be fused by the compiler
STATES, ROUNDS = 256, 21
LIMIT = 100  # seconds that the compiler may take for one function
COMPARED = tuple(f for f in FUNCTIONS if f != "forward_dynamics_derivatives_from")
Inputs = Sequence[Any]
IN_HARDWARE = (CORTEX[1], "float32"), (CORTEX[3], "float32"), (CORTEX[3], "float64")
FLOAT32 = tuple((machine, "float32") for machine in CORTEX)
TABLES = ("hosts", "cortex", "cheap", "ground")
SMALL = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "inverse_dynamics_derivatives")

OUR_LOOP = """
#include "{name}.h"
void loop(long n, const double *q, const double *v, const double *u, double *x, double *y,
          double *z, double *work) {{
  (void)v, (void)u, (void)y, (void)z;
  for (long i = 0; i < n; ++i) {name}_{function}({arguments}, work);
}}
"""
CASADI_LOOP = """
void loop(long n, const double *q, const double *v, const double *u, double *x, double *y,
          double *z, double *work) {{
  static casadi_int iw[{sz_iw} + 1];
  for (long i = 0; i < n; ++i) {{
    const double *arg[{sz_arg} + 3] = {{q + i * {nq}, v + i * {nv}, u + i * {nv}}};
    double *res[{sz_res} + 3] = {{x + i * {size}, y + i * {size}, z + i * {size}}};
    {name}(arg, res, iw, work, 0);
  }}
}}
"""


class Library:
    """A function in a shared library, and what making it took."""

    def __init__(self, folder: Path, sources: list[Path], contract: str) -> None:
        made, flags = folder / "loop.so", [*FLAGS, contract]
        start = time.perf_counter()
        command = ["gcc", *flags, *map(str, sources), "-o", str(made), "-lm"]
        subprocess.run(command, check=True, timeout=LIMIT)
        self.seconds = time.perf_counter() - start
        objects = folder / "size.o"
        largest = max(sources, key=lambda x: x.stat().st_size)
        subprocess.run(["gcc", *flags[:2], "-c", str(largest), "-o", str(objects)], check=True)
        told = subprocess.run(["size", str(objects)], capture_output=True, text=True, check=True)
        self.bytes = int(told.stdout.splitlines()[1].split()[0])
        self.call = ctypes.CDLL(str(made)).loop
        self.call.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 7]

    def ns(self, arrays: list[np.ndarray]) -> float:
        """Processor time of a call: the clock also counts what other programs take."""
        start = time.process_time()
        self.call(STATES, *[x.ctypes.data for x in arrays])
        return (time.process_time() - start) / STATES * 1e9


def ours(model: Model, function: str, folder: Path) -> Library:
    files = fl.generate(model, folder, [function], name="ours", states=1)
    inputs = list(FUNCTIONS[function].inputs)
    outputs = list(FUNCTIONS[function].outputs)
    size = model.nv if len(FUNCTIONS[function].outputs[outputs[0]]) == 1 else model.nv**2
    steps = [model.nq, model.nv, model.nv]
    parts = [f"{x} + i * {n}" for x, n in zip("qvu", steps[: len(inputs)], strict=False)]
    parts += [f"{x} + i * {size}" for x in "xyz"[: len(outputs)]]
    loop = folder / "loop.c"
    loop.write_text(OUR_LOOP.format(name="ours", function=function, arguments=", ".join(parts)))
    return Library(folder, [files[1], loop], EXACT)


def casadi(model: Model, function: str, states: States, folder: Path) -> Library | None:
    """CasADi's C of a function; None where adam's formulas give other derivatives, or
    where compiling it takes too long.
    """
    import casadi as cs
    from suite.peers.base import Case
    from suite.peers.with_casadi import Expressions

    if "derivatives" in function and model.root != "fixed":
        return None
    made = Expressions(Case(model, "", function, "float64", *states)).function(function)
    generator = cs.CodeGenerator("code", {"casadi_real": "double"})
    generator.add(made)
    sizes = {name: getattr(made, name)() for name in ("sz_arg", "sz_res", "sz_iw")}
    size = model.nv if made.size2_out(0) == 1 else model.nv**2
    shapes = {"nq": model.nq, "nv": model.nv, "size": size, "name": function}
    source = folder / "casadi.c"
    source.write_text(str(generator.dump()) + CASADI_LOOP.format(**sizes, **shapes))
    try:
        return Library(folder, [source], FUSED)
    except subprocess.TimeoutExpired:
        return None


def compared(model: Model, function: str) -> list[str]:
    """One row: kB, seconds of the compiler, ns of a call, each of ours and CasADi's; the ratio."""
    states = States.random(model, STATES)
    outputs = [np.zeros((STATES, model.nv, model.nv)) for _ in range(4)]
    arrays = [np.ascontiguousarray(x) for x in (*states, *outputs[:3], np.zeros(1 << 20))]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        libraries = [ours(model, function, Path(one))]
        libraries += [x for x in [casadi(model, function, states, Path(other))] if x]
        times: list[list[float]] = [[] for _ in libraries]
        answers = []
        for library in libraries:
            library.ns(arrays)
            answers.append([x.copy() for x in outputs[:2]])
        for _ in range(ROUNDS):
            for library, row in zip(libraries, times, strict=True):
                row.append(library.ns(arrays))
    medians = [statistics.median(row) for row in times]
    cells = [f"{library.bytes / 1000:,.0f}" for library in libraries]
    seconds = [f"{library.seconds:.1f}" for library in libraries]
    speeds = [f"{x:,.0f}" for x in medians]
    if len(libraries) == 1:
        return [x for cell in (cells, seconds, speeds) for x in (*cell, "-")] + ["-"]
    checked(model, function, answers)
    return [*cells, *seconds, *speeds, f"{medians[1] / medians[0]:.2f}"]


def checked(model: Model, function: str, answers: list[list[np.ndarray]]) -> None:
    """Both libraries compute the same. CasADi stores matrices column by column."""
    square = len(next(iter(FUNCTIONS[function].outputs.values()))) == 2
    size = model.nv**2 if square else model.nv
    for a, b in zip(*answers, strict=True):
        a, b = (x.reshape(-1)[: STATES * size].reshape(STATES, -1) for x in (a, b))
        if square:
            b = b.reshape(-1, model.nv, model.nv).swapaxes(1, 2).reshape(STATES, -1)
        assert np.abs(a - b).max() <= 1e-6 * max(np.abs(a).max(), 1e-300), function
        if len(FUNCTIONS[function].outputs) == 1:
            break


# Microcontrollers

MEASURE = """
#include "{name}.h"
#include <stdint.h>
#include <stdio.h>
extern uint32_t instructions(void);
extern void paint_stack(void);
extern uint32_t stack_used(void);
int main(void) {{
  {arrays}
  static {T} work[{WORK} + 1];
  paint_stack();
  {name}_f({arguments}, work);
  const uint32_t stack = stack_used(), begin = instructions();
  for (int i = 0; i < 10; ++i) {name}_f({arguments}, work);
  printf("%lu %lu", (unsigned long)(instructions() - begin) / 10, (unsigned long)stack);
  return 0;
}}
"""


def on_microcontroller(graph: Any, inputs: Inputs, dtype: str, machine: Machine) -> list[str]:
    """Bytes of code, of workspace and stack, and instructions with both kinds of multiply-adds.
    inputs: of one call, in the order of the graph's; others are zero.
    """
    real, size = ("double", 8) if dtype == "float64" else ("float", 4)
    values = dict(zip(graph.inputs, inputs, strict=False))
    arrays = [
        f"static {real} {name}[{max(prod(shape), 1)}] = {{{_numbers(values.get(name, [0.0]))}}};"
        for name, shape in graph.inputs.items()
    ]
    arrays += [f"static {real} {x}[{prod(out.shape)}];" for x, out in graph.outputs.items()]
    arguments = [*graph.inputs, *graph.outputs]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = fl.generate(None, folder, {"f": graph}, name="ours", dtype=dtype, states=1)
        main = folder / "main.c"
        fills = {"T": real, "WORK": "OURS_WORK", "name": "ours", "arrays": "\n  ".join(arrays)}
        main.write_text(MEASURE.format(arguments=", ".join(arguments), **fills))
        bytes_of_code = machine.code_size(files[1], folder, ["-O2"])
        cells = []
        for how in ([], ["-DFEATHERLANE_FMA=0"]):
            machine.build([files[1], main], folder / "program", ["-O2", *how])
            cells.append(machine.run(folder / "program").stdout.split())
        told = re.search(r"#define OURS_WORK (\d+)", files[0].read_text())
        assert told
    (exact, stack), (plain, _) = cells
    words = f"{int(told[1]) * size:,} + {int(stack):,}"
    return [f"{bytes_of_code / 1000:,.0f}", words, f"{int(exact):,}", f"{int(plain):,}"]


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(map(str, np.ravel(values)))


def hosts(titles: list[str]) -> str:
    rows = []
    for robot in chosen(titles):
        for function in COMPARED:
            say(f"{robot.title} {SHORT[function]}")
            rows.append([f"{robot.title} {SHORT[function]}", *compared(robot.model(), function)])
    pairs = [f"{what}, {who}" for what in ("kB", "gcc, s", "ns") for who in ("ours", "CasADi")]
    return table(["", *pairs, "CasADi / ours"], rows)


def cortex(cases: dict[str, tuple[Any, Inputs]], machines: Iterable[tuple[Machine, str]]) -> str:
    """A table of graphs, each with the inputs of a call, by their names, on machines in a dtype."""
    rows = []
    for machine, dtype in machines:
        if machine.missing:
            return f"{machine.name}: {machine.missing}"
        for name, (graph, inputs) in cases.items():
            title = f"{machine.name}, {dtype}, {name}"
            say(title)
            rows.append([title, *on_microcontroller(graph, inputs, dtype, machine)])
    heads = ["", "code, kB", "workspace + stack, bytes", "instructions", "without exact fma"]
    return table(heads, rows)


def of_arm() -> dict[str, tuple[Any, Inputs]]:
    model = fl.load("iiwa14")
    inputs = States(*(0.1 * np.arange(7) + 0.3 * k for k in range(3)))
    return {SHORT[name]: (model.graph(name), inputs) for name in SMALL}


def of_cheap_arms() -> dict[str, tuple[Any, Inputs]]:
    cases = {}
    for name in ("so101", "openarm"):
        model = fl.load(name)
        q, v, a = (0.1 * np.arange(model.nv) + 0.3 * k for k in range(3))
        cases[f"{name}, gravity"] = model.graph("gravity_torque"), (q,)
        cases[f"{name}, ID"] = model.graph("inverse_dynamics"), (q, v, a)
    return cases


def on_the_ground() -> dict[str, tuple[Any, Inputs]]:
    """Steps of a quadruped near its stance, alone and behind a law that holds its joints."""
    model = fl.load("hyq", root="free")
    stance = np.array(ROBOTS["HyQ"].stance)
    q, v = (x[0] for x in states(model, ROBOTS["HyQ"], 1))
    laws = {"Coulomb, 10 sweeps": fl.Coulomb(sweeps=10), "SoftContacts": fl.SoftContacts(steps=5)}
    cases = {}
    for name, law in laws.items():
        step = model.graph("step", ground=fl.Ground(), law=law)

        def controlled(q: Any, v: Any, dt: Any, step: Any = step) -> Any:
            tau = np.append(np.zeros(6), 300 * (stance - q[7:]) - 10 * v[6:])
            return fl.call(step, q=q, v=v, tau=tau, dt=dt)

        loop = fl.trace(controlled, {"q": model.nq, "v": model.nv, "dt": ()})
        cases[name] = step, (q, v, 0 * v, [0.002])
        cases[f"{name}, with the law"] = loop, (q, v, [0.002])
    return cases


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("robots", nargs="*", default=["iiwa14", "hyq", "atlas:free"])
    arguments.add_argument("--only", choices=TABLES, nargs="*", default=TABLES, help="tables")
    asked = arguments.parse_args()
    print("\n".join(machine_lines()))
    if "hosts" in asked.only:
        print("", hosts(asked.robots), sep="\n")
    if "cortex" in asked.only:
        print("", cortex(of_arm(), product(CORTEX, DTYPES)), sep="\n")
    if "cheap" in asked.only:
        print("", cortex(of_cheap_arms(), FLOAT32), sep="\n")
    if "ground" in asked.only:
        print("", cortex(on_the_ground(), IN_HARDWARE), sep="\n")


if __name__ == "__main__":
    main()
