"""The processors that code can be made for, as a table, and code that runs without Python.

A kernel is text for vectors of some width; which instructions it becomes is decided here alone. The
host is one more row. The others are for code that is linked into another program, and to show that
results have the same bits everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np

from featherlane.backends.llvm import software_fma as fused

X86 = ("x86_64", "amd64", "i386", "i486", "i586", "i686")
WHOLE_VECTORS = "-prefer-256-bit"  # LLVM halves vectors of 512 bits where it expects a lower clock


class Target(NamedTuple):
    """A kind of processor in LLVM's names, and the bits of its widest vectors."""

    name: str
    triple: str
    cpu: str
    features: str
    bits: int
    fused: bool = True  # whether it has an instruction for a b + c rounded once
    needs: tuple[str, ...] = ()  # what an x86 processor must have to run its code

    @property
    def x86(self) -> bool:
        return self.triple.split("-")[0] in X86

    def widest(self, dtype: np.dtype) -> int:
        """The lanes of its widest vectors."""
        return self.bits // (8 * np.dtype(dtype).itemsize)


LINUX, ARM_LINUX = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
V3 = ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe")  # of x86-64-v3
V4 = (*V3, "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")
TARGETS = {
    target.name: target
    for target in (
        Target("avx512", LINUX, "x86-64-v4", WHOLE_VECTORS, 512, needs=V4),
        Target("avx2", LINUX, "x86-64-v3", "", 256, needs=V3),
        Target("sse2", LINUX, "x86-64", "", 128, fused=False),
        Target("neon", ARM_LINUX, "generic", "+neon", 128),
    )
}
NEVER = re.compile(r"%stop = icmp eq ptr (%\w+), null")  # see llvm.straight_line
APART = re.compile(r"br i1 %stop, label %leave, label %block(\d+)")
FUSED = re.compile(r"llvm\.fma\.v(\d+)f(\d+)")


def host_target(triple: str, cpu_name: str, has: Mapping[str, bool]) -> Target:
    """A processor from what LLVM found out about it."""
    found = Target("host", triple, cpu_name, "", 128)  # as NEON and SSE2 have
    features = [",".join(f"{'+' if has[k] else '-'}{k}" for k in sorted(has))] if has else []
    if found.x86 and has.get("avx"):
        found = found._replace(bits=256)
        if has.get("avx512f") and has.get("avx512vl"):
            found = found._replace(bits=512)
            features.append(WHOLE_VECTORS)
    fused = not found.x86 or bool(has.get("fma") or has.get("fma4"))
    return found._replace(features=",".join(features), fused=fused)


@cache
def host() -> Target:
    """The processor that this runs on."""
    has = llvm.get_host_cpu_features()
    return host_target(llvm.get_process_triple(), llvm.get_host_cpu_name(), has)


def runs_here(target: Target) -> bool:
    """Whether the host can run code for this target."""
    mine, has = host(), llvm.get_host_cpu_features()
    alike = target.x86 == mine.x86 and ("linux" in target.triple) == ("linux" in mine.triple)
    return target == mine or (alike and all(has.get(need) for need in target.needs))


def target_machine(target: Target) -> llvm.TargetMachine:
    """LLVM's compiler for a target. Code stays together in memory, where constants are reached in
    one instruction; on Windows LLVM's linker wants to be free to place them.
    """
    if target == host():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    model = "jitdefault" if os.name == "nt" and target == host() else "small"
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel=model
    )


def module_for(ir: str, target: Target, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """LLVM IR as a checked module."""
    module = llvm.parse_assembly(ir if target.x86 else _kept_apart(ir))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if not target.fused:
        _emulate(module)
    module.verify()
    return module


def _kept_apart(ir: str) -> str:
    """The text with another condition at each branch that keeps blocks of straight-line code apart.
    For Arm, LLVM drops branches on what it has asked before: the one block that is left takes seven
    times as long to compile and a fifth more instructions. On x86 it does not.
    """
    lines: list[str] = []
    for line in ir.split("\n"):
        if found := NEVER.fullmatch(line):
            lines.append(f"%stop.at = ptrtoint ptr {found[1]} to i64")
        elif found := APART.match(line):
            lines.append(f"%stop.{found[1]} = icmp eq i64 %stop.at, {found[1]}")
            line = line.replace("%stop", f"%stop.{found[1]}", 1)
        lines.append(line)
    return "\n".join(lines)


def _emulate(module: llvm.ModuleRef) -> None:
    """Fused multiply-adds of vectors as calls of a function of our own."""
    for match in [FUSED.fullmatch(function.name) for function in module.functions]:
        if match:
            width, bits, name = int(match[1]), int(match[2]), f"fused_{match[1]}_{match[2]}"
            module.get_function(match[0]).name = name
            module.link_in(llvm.parse_assembly(fused.text(bits, width, name)))
            module.get_function(name).linkage = "internal"


def machine_code(ir: str, target: Target) -> bytes:
    """LLVM IR as an object file."""
    machine = target_machine(target)
    return machine.emit_object(module_for(ir, target, machine))
