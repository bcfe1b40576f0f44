"""What do assemblers make of the kernels for GPUs: registers, spills, code, their own time?

Nothing is run. For NVIDIA's processors `ptxas` must be found (CUDA toolkit, or PyPI
nvidia-cuda-nvcc); CUDA 13 has none for sm_70: --ptxas names another one, such as that of PyPI
nvidia-cuda-nvcc-cu12, which is then used for all. For gfx90a and gfx942 of AMD, and for spirv64,
LLVM is used; SPIR-V is validated where spirv-val is found. Each kernel is assembled alone, on one
core, and is a row of --csv; the table has the largest kernel of each function and the sum of their
processor times. With --ground, functions are steps and rollouts of robots with feet. With --check
the exit status is 1 if a kernel is over its budget.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from options import parser, write_json
from robots import DTYPES, Robot, chosen, machine_lines, say, table

import featherlane as fl
from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.stages import GpuKernels
from featherlane.backends.vendors.devices import AMD, DEVICES
from featherlane.backends.vendors.emit import emitted
from featherlane.functions.table import FUNCTIONS

ROBOTS = ("iiwa14", "hyq:free", "go2:free", "atlas:free", "g1:free")
ARCHES = ("sm_80", "sm_90", "sm_100", "sm_120")
# What a kernel may have at most on NVIDIA's processors: registers, bytes spilled by a thread in
# float32, and seconds of ptxas
BUDGET = {"registers": 255, "spilled, B": 2_500, "seconds": 3.0}


class Case(NamedTuple):
    """One kernel of a function: its text alone."""

    robot: str
    function: str
    mapping: str
    dtype: str
    kernels: GpuKernels
    launch: Launch


def cases(
    robots: Sequence[Robot], names: Sequence[str], dtypes: Sequence[str], mappings: Sequence[str]
) -> Iterator[Case]:
    for robot in robots:
        model = fl.load(str(robot.urdf), root=robot.root)
        for name, mapping, dtype in product(names, mappings, dtypes):
            gpu = model.function(name).gpu
            assert gpu is not None
            for made in alone(gpu.kernels(mapping, name, np.dtype(dtype))):
                yield Case(robot.title, name, mapping, dtype, made, made.launches[0])


def on_the_ground(robots: Sequence[Robot], dtypes: Sequence[str]) -> Iterator[Case]:
    """Steps and rollouts of 20 steps, of bundled robots, whose feet are spheres, with both laws."""
    laws = {"Coulomb": fl.Coulomb(), "SoftContacts": fl.SoftContacts()}
    functions = {"step": {}, "rollout": {"steps": 20}}
    for robot, (law, each), name, dtype in product(robots, laws.items(), functions, dtypes):
        model = fl.load(robot.name, root=robot.root)
        function = model.function(name, ground=fl.Ground(), law=each, **functions[name])
        assert function.gpu is not None
        for made in alone(function.gpu.kernels("lanes", name, np.dtype(dtype))):
            title = f"{name}, {law}"
            yield Case(robot.title, title, "lanes", dtype, made, made.launches[0])


def alone(made: GpuKernels) -> Iterator[GpuKernels]:
    """Each kernel, with its text alone. Those of a loop are launched again and again."""
    for launch in {x.kernel: x for x in made.launches}.values():
        texts, launches = (made.texts[launch.text],), (launch._replace(text=0),)
        yield made._replace(texts=texts, launches=launches)


class _Timed:
    """The processor time of the processes that end within: others may be at work."""

    def __enter__(self) -> _Timed:
        self.before = os.times()
        return self

    def __exit__(self, *error: object) -> None:
        after = os.times()
        self.seconds = after.children_user - self.before.children_user


def _code_bytes(image: bytes) -> int:
    """The bytes of machine code of an ELF file of 64 bits: of its executable sections."""
    (table_at,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    headers = (struct.unpack_from("<IIQQQQ", image, table_at + k * size) for k in range(count))
    return sum(length for _, _, flags, _, _, length in headers if flags & 4)


def by_ptxas(case: Case, arch: str, ptxas: str) -> dict[str, Any]:
    """The figures of a kernel for a processor of NVIDIA."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(case.kernels.text)
        call = [ptxas, "-v", f"-arch={arch}", str(path), "-o", f"{folder}/kernel.cubin"]
        with _Timed() as timed:
            done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        code = _code_bytes(Path(folder, "kernel.cubin").read_bytes())
    told = done.stderr
    return {
        "registers": _number(r"Used (\d+) registers", told),
        "spilled, B": max(map(int, re.findall(r"(\d+) bytes spill stores", told))),
        "code, kB": code / 1e3,
        "seconds": timed.seconds,
    }


def by_llvm(case: Case, device: str) -> dict[str, Any]:
    """The figures of a kernel for AMD; for SPIR-V, those that it has, and whether it is valid."""
    with _Timed() as timed:
        image = emitted(case.kernels, device, "object")
    if DEVICES[device][1] is not AMD:
        return {"code, kB": len(image) / 1e3, "seconds": timed.seconds, "valid": _valid(image)}
    told = emitted(case.kernels, device, "assembly").decode()
    return {
        "registers": _number(r"\.vgpr_count: +(\d+)", told),
        "scalar registers": _number(r"\.sgpr_count: +(\d+)", told),
        "spilled, B": _number(r"\.private_segment_fixed_size: +(\d+)", told),
        "code, kB": _code_bytes(image) / 1e3,
        "seconds": timed.seconds,
    }


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"the assembler does not tell {pattern!r}: {text[-300:]}")
    return int(found[1])


def _valid(module: bytes) -> str:
    """The answer of spirv-val about a module."""
    if shutil.which("spirv-val") is None:
        return "no spirv-val"
    call = ["spirv-val", "--target-env", "opencl2.2", "-"]
    done = subprocess.run(call, input=module, capture_output=True)
    return "no" if done.returncode else "yes"


def rows(arches: Sequence[str], all_cases: Iterator[Case], ptxas: str) -> Iterator[dict[str, Any]]:
    for case in all_cases:
        say(f"{case.robot}, {case.dtype}, {case.launch.kernel}")
        for arch in arches:
            yield {
                "robot": case.robot,
                "function": case.function,
                "mapping": case.mapping,
                "dtype": case.dtype,
                "kernel": case.launch.kernel,
                "processor": arch,
                "shared, kB": case.launch.shared / 1024,
                "scratch, B": case.kernels.slots * np.dtype(case.dtype).itemsize,
                **(by_llvm(case, arch) if arch in DEVICES else by_ptxas(case, arch, ptxas)),
            }


def largest(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each function: the largest figure of its kernels, and the time of all."""
    key = lambda row: tuple(row[x] for x in ("robot", "function", "mapping", "dtype", "processor"))
    result = []
    for _, group in groupby(sorted(found, key=key), key):
        own = list(group)
        row = {x: own[0][x] for x in ("robot", "function", "mapping", "dtype", "processor")}
        row["kernels"] = len(own)
        for x in own[0].keys() - row.keys() - {"kernel", "valid", "seconds"}:
            row[x] = max(kernel[x] for kernel in own)
        row["seconds"] = sum(kernel["seconds"] for kernel in own)
        if "valid" in own[0]:
            row["valid"] = min(kernel["valid"] for kernel in own)
        result.append(row)
    return result


def over_budget(found: Sequence[dict[str, Any]]) -> list[str]:
    """The kernels beyond the budget, a line for each."""
    return [
        f"{row['robot']}, {row['dtype']}, {row['kernel']}, {row['processor']}: {what} {row[what]:g}"
        for row in found
        for what, most in BUDGET.items()
        if row["processor"] not in DEVICES and row[what] > most
        if what != "spilled, B" or row["dtype"] == "float32"
    ]


def _write_csv(file: Path, found: Sequence[dict[str, Any]]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(dict.fromkeys(x for row in found for x in row)))
        writer.writeheader()
        writer.writerows(found)


def main() -> None:
    options = parser(__doc__, robots=ROBOTS, functions=FUNCTIONS, json=None, csv=None)
    known = ("sm_70", *ARCHES, *DEVICES)
    options.add_argument("--arch", nargs="+", default=ARCHES, choices=known, help="processors")
    options.add_argument("--mapping", nargs="+", default=["lanes"], help="lanes, team:4 ...")
    options.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, help="dtypes")
    options.add_argument("--ptxas", default="ptxas", help="the assembler of NVIDIA (%(default)s)")
    options.add_argument("--check", action="store_true", help="fail if a kernel is over its budget")
    options.add_argument("--ground", action="store_true", help="steps on the ground, both laws")
    args = options.parse_args()
    if shutil.which(args.ptxas) is None and not DEVICES.keys() >= {*args.arch}:
        sys.exit(f"{args.ptxas} is not found: it is part of the CUDA toolkit")
    names = args.functions or [*FUNCTIONS]
    robots = [*chosen(args.robots)]
    of_all = cases(robots, names, args.dtypes, args.mapping)
    if args.ground:
        of_all = on_the_ground(robots, args.dtypes)
    found = [
        {x: round(y, 3) if isinstance(y, float) else y for x, y in row.items()}
        for row in rows(args.arch, of_all, args.ptxas)
    ]
    shown = largest(found)
    columns = list(dict.fromkeys(x for row in shown for x in row))
    print(table(columns, [[_text(row.get(c, "")) for c in columns] for row in shown]))
    print("\n" + "\n".join(machine_lines()))
    write_json(args.json, found, arch=args.arch)
    if args.csv:
        _write_csv(args.csv, found)
    beyond = over_budget(found)
    print("\n" + "\n".join(["over the budget:", *beyond] if beyond else ["all in the budget"]))
    sys.exit(1 if args.check and beyond else 0)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
