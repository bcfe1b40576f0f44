"""Kernels as object files and assembly, for this processor or another."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np

from featherlane.backends.cpu.graphs import kernel
from featherlane.backends.llvm.targets import Target, module_for, target_machine
from featherlane.program.program import Program

# Code for other programs

FROM_C = """
declare ptr @malloc(i64)
declare void @free(ptr)
define ptr @scratch_new(i64 %size) {
  %place = call ptr @malloc(i64 %size)
  ret ptr %place
}
define void @scratch_free(ptr %place) {
  call void @free(ptr %place)
  ret void
}
"""
GIVEN = ("loop", "work", "forget")  # what others may call; the last two of recorded calls alone


def _standalone(ir: str, target: Target, machine: llvm.TargetMachine, name: str) -> llvm.ModuleRef:
    """The module with nothing that is not used, and with memory from the C library."""
    module = module_for(ir, target, machine)
    module.link_in(llvm.parse_assembly(FROM_C))
    for function in module.functions:
        if not function.is_declaration and function.name not in GIVEN:
            function.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    for value in (*module.functions, *module.global_variables):
        if value.name in GIVEN:
            value.name = name if value.name == "loop" else f"{name}_{value.name}"
    return module


def standalone(ir: str, target: Target, name: str = "loop") -> bytes:
    """The text of a kernel as a relocatable object file that needs the C library alone.

    It defines the function `name`, of C type void(char **arrays, const int64_t *states, const
    int64_t *steps, void *unused), the inner loop of a generalised ufunc: arrays are the inputs and
    then the outputs, steps the bytes from state to state of each, and then those between entries
    along each axis of each. Text of recorded calls gives `name`_work and `name`_forget too.
    """
    machine = target_machine(target)
    return machine.emit_object(_standalone(ir, target, machine, name))


def assembly(ir: str, target: Target) -> str:
    """The same as the assembler's text."""
    machine = target_machine(target)
    return machine.emit_assembly(_standalone(ir, target, machine, "loop"))


def object_code(
    program: Program,
    dtype: np.dtype,
    target: Target,
    width: int | None = None,
    name: str = "loop",
) -> bytes:
    """The loop of a lowered program as an object file, see `standalone`. width: lanes of its
    vectors, by default the widest of the target.
    """
    width = target.widest(dtype) if width is None else width
    return standalone(kernel.source(program, dtype, width), target, name)
