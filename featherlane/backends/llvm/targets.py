"""The table of processors that there is code for, and LLVM IR compiled for one of them.

A kernel is text for vectors of some width; only this module decides which instructions it becomes.
The host is a further row. The other rows serve object files for other programs, and tests that
results have the same bits everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from featherlane.backends.llvm import binding as llvm

if TYPE_CHECKING:  # workers do without NumPy
    import numpy as np

X86 = ("x86_64", "amd64", "i386", "i486", "i586", "i686")
# Attributes, which `module_for` adds, of functions with workspaces on the stack: they touch page
# after page, so that a stack overflow hits the guard page and not memory beyond it
PROBED = "#0"
WHOLE_VECTORS = "-prefer-256-bit"  # LLVM halves vectors of 512 bits where it expects a lower clock


class Processor(NamedTuple):
    """A processor in LLVM's names, and the bits of its widest vectors."""

    name: str
    triple: str
    cpu: str
    features: str
    bits: int
    fused: bool = True  # whether it has an instruction for a b + c rounded once
    needs: tuple[str, ...] = ()  # the features that an x86 processor must have to run its code

    @property
    def x86(self) -> bool:
        return self.triple.split("-")[0] in X86

    def widest(self, dtype: np.dtype) -> int:
        """The lanes of its widest vectors."""
        import numpy as np

        return self.bits // (8 * np.dtype(dtype).itemsize)


LINUX, ARM_LINUX = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
V3 = ("avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe")  # of x86-64-v3
V4 = (*V3, "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")
TARGETS = {
    target.name: target
    for target in (
        Processor("avx512", LINUX, "x86-64-v4", WHOLE_VECTORS, 512, needs=V4),
        Processor("avx2", LINUX, "x86-64-v3", "", 256, needs=V3),
        Processor("sse2", LINUX, "x86-64", "", 128, fused=False),
        Processor("neon", ARM_LINUX, "generic", "+neon", 128),
    )
}


def host_target(triple: str, cpu_name: str, has: Mapping[str, bool]) -> Processor:
    """The row of the host, from the names and features that LLVM detects."""
    target = Processor("host", triple, cpu_name, "", 128)  # the vectors of NEON and SSE2
    features = [",".join(f"{'+' if has[k] else '-'}{k}" for k in sorted(has))] if has else []
    if target.x86 and has.get("avx"):
        target = target._replace(bits=256)
        if has.get("avx512f") and has.get("avx512vl"):
            target = target._replace(bits=512)
            features.append(WHOLE_VECTORS)
    fused = not target.x86 or bool(has.get("fma") or has.get("fma4"))
    return target._replace(features=",".join(features), fused=fused)


@cache
def host() -> Processor:
    """The processor that this process runs on."""
    has = llvm.get_host_cpu_features()
    return host_target(llvm.get_process_triple(), llvm.get_host_cpu_name(), has)


def runs_here(target: Processor) -> bool:
    """Whether the host can run code for this target."""
    mine, has = host(), llvm.get_host_cpu_features()
    same_system = target.x86 == mine.x86 and ("linux" in target.triple) == ("linux" in mine.triple)
    return target == mine or (same_system and all(has.get(need) for need in target.needs))


def target_machine(target: Processor) -> llvm.TargetMachine:
    """LLVM's code generator for a target.

    The code model is small: sections lie close together and constants are reached in one
    instruction. On Windows LLVM's linker must be free to place sections anywhere.
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


def module_for(ir: str, target: Processor, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parses LLVM IR into a verified module for a target."""
    if "windows" not in target.triple:  # each function probes its stack there, by __chkstk
        ir = f'{ir}\nattributes {PROBED} = {{ "probe-stack"="inline-asm" }}\n'
    module = llvm.parse_assembly(with_branches(ir, target))
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if not target.fused:
        _emulate_fma(module)
    module.verify()
    return module


# The branches between the basic blocks of `lower.straight_line`, which keep LLVM from merging them.
# On Arm its code generator drops a branch on a condition that was tested before: the single block
# takes seven times as long to compile and a fifth more instructions, so each condition differs
BRANCHES = {
    "never": "%stop = icmp eq ptr {0}, null",
    "next": "br i1 %stop, label %leave, label %block{0}",
}
BRANCHES_ON_ARM = {
    "never": "%stop.at = ptrtoint ptr {0} to i64",
    "next": "%stop.{0} = icmp eq i64 %stop.at, {0}\nbr i1 %stop.{0}, label %leave, label %block{0}",
}
_BRANCH = re.compile(r"^(never|next) (\S+)$", re.MULTILINE)


def with_branches(ir: str, target: Processor) -> str:
    """LLVM IR with a target's branches in the place of the lines `never %pointer` and `next n`."""
    branches = BRANCHES if target.x86 else BRANCHES_ON_ARM
    return _BRANCH.sub(lambda line: branches[line[1]].format(line[2]), ir)


_VECTOR_FMA = re.compile(r"llvm\.fma\.v(\d+)f(\d+)")


def _emulate_fma(module: llvm.ModuleRef) -> None:
    """Replaces LLVM's fused multiply-add of vectors by calls of `software_fma`."""
    from featherlane.backends.llvm import software_fma  # few processors need it

    for match in [_VECTOR_FMA.fullmatch(function.name) for function in module.functions]:
        if match:
            width, bits, name = int(match[1]), int(match[2]), f"fused_{match[1]}_{match[2]}"
            module.get_function(match[0]).name = name
            module.link_in(llvm.parse_assembly(software_fma.source(bits, width, name)))
            module.get_function(name).linkage = "internal"


def machine_code(ir: str, target: Processor) -> bytes:
    """Compiles LLVM IR to an object file for a target."""
    machine = target_machine(target)
    return machine.emit_object(module_for(ir, target, machine))
