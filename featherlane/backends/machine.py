"""This processor: what its vectors hold, and LLVM IR as machine code in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm
import numpy as np

from featherlane.backends import direct


@cache
def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def widest(dtype: np.dtype) -> int:
    """The lanes of the host's widest vectors."""
    has = _features()
    bits = 512 if has.get("avx512f") and has.get("avx512vl") else 256 if has.get("avx") else 128
    return bits // (8 * np.dtype(dtype).itemsize)


def target() -> str:
    """The processor that code is made for."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="jitdefault"
    )


def machine_code(ir: str) -> bytes:
    """An object file for this machine."""
    machine = target_machine()
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    return machine.emit_object(module)


class Code:
    """Machine code in memory, for as long as this object lives."""

    _jit: llvm.LLJIT | None = None
    _names = count()

    def __init__(self, image: bytes, names: Sequence[str] = ("loop", "call")) -> None:
        if Code._jit is None:
            target_machine()  # initialises LLVM
            Code._jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, place in direct.symbols().items():
            builder = builder.import_symbol(name, place)
        for name in names:
            builder = builder.export_symbol(name)
        self._library = builder.link(Code._jit, f"featherlane{next(Code._names)}")
        self._places = {name: int(self._library[name]) for name in names}

    def place(self, name: str) -> int:
        """The address of one of the names."""
        return self._places[name]

    @property
    def address(self) -> int:
        return self._places["loop"]

    @property
    def call_address(self) -> int:
        return self._places["call"]
