"""Kernels as object files and as assembly, for this processor or another one."""

from __future__ import annotations

import numpy as np

from featherlane.backends.cpu.addresses import NAMES, TABLE, with_table
from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.cpu.scratch import ALL_PLACES
from featherlane.backends.llvm import binding as llvm
from featherlane.backends.llvm.targets import Processor, module_for, target_machine
from featherlane.program.program import Program

# What a kernel gets from CPython and from this package, made of the C library instead
C_ALLOCATOR = f"""
@scratch_waiting = global [{ALL_PLACES} x ptr] zeroinitializer, align 8
@scratch_failures = global i64 0, align 8
declare ptr @malloc(i64)
declare void @free(ptr)
"""
ALLOCATOR = {
    "scratch_new": "malloc",
    "scratch_free": "free",
    "scratch_waiting": "scratch_waiting",
    "scratch_failures": "scratch_failures",
}
EXPORTED = ("loop", "scratch_failures", "work", "forget")  # the last two: of step programs


def _module(ir: str, target: Processor, machine: llvm.TargetMachine, name: str) -> llvm.ModuleRef:
    """The module of a kernel with the C library's allocator, without unused functions."""
    entries = [f"ptr @{ALLOCATOR[name]}" if name in ALLOCATOR else "ptr null" for name in NAMES]
    text = with_table(ir + C_ALLOCATOR, f"[{', '.join(entries)}]")
    module = module_for(text, target, machine)
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in EXPORTED:
            # without a symbol for the table: it is complete, and not filled after loading
            value.linkage = "private" if value.name == TABLE else "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    for value in (*module.functions, *module.global_variables):
        if value.name in EXPORTED:
            value.name = name if value.name == "loop" else f"{name}_{value.name}"
    return module


def standalone(ir: str, target: Processor, name: str = "loop") -> bytes:
    """Compiles the LLVM IR of a kernel to a relocatable object file that needs the C library alone.

    It defines the function `name`, of C type void(char **arrays, const int64_t *states, const
    int64_t *steps, void *unused), the inner loop of a generalised ufunc. `arrays` are the inputs
    and then the outputs; `steps` are the bytes from state to state of each array, and then the
    bytes between entries along each axis of each array. `name`_scratch_failures, if there, is an
    int64_t that counts the calls which had no memory to work in, and wrote nothing. The IR of step
    programs gives `name`_work and `name`_forget too.
    """
    machine = target_machine(target)
    return machine.emit_object(_module(ir, target, machine, name))


def assembly(ir: str, target: Processor) -> str:
    """Compiles the LLVM IR of a kernel to assembly, with `standalone`'s functions."""
    machine = target_machine(target)
    return machine.emit_assembly(_module(ir, target, machine, "loop"))


def object_code(
    program: Program,
    dtype: np.dtype,
    target: Processor,
    width: int | None = None,
    name: str = "loop",
) -> bytes:
    """Compiles a lowered program, see `standalone`. width: lanes, by default as many as fit."""
    width = target.widest(dtype) if width is None else width
    return standalone(kernel.source(program, dtype, width), target, name)
