"""The program of a process that generates code from LLVM IR for one device: a request on stdin, the
code on stdout. LLVM ends the whole process at an instruction that it cannot select.
"""

from __future__ import annotations

import json
import os
import sys

from featherlane.backends.llvm import binding as llvm
from featherlane.backends.llvm import targets, worker


def main() -> None:
    """Answers one request: what to make, "assembly" or "object", the processor, and the IR."""
    code = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM writes to stdout is not code
    request = json.loads(worker.receive(sys.stdin.buffer))
    target = targets.Processor(**request["target"])
    machine = targets.target_machine(target)
    module = targets.module_for(request["ir"], target, machine)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()  # places on the stack become values
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    if request["what"] == "object":
        worker.send(code, machine.emit_object(module))
    else:
        worker.send(code, machine.emit_assembly(module).encode())
