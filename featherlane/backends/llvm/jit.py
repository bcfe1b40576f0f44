"""The host processor: the width of its vectors, and LLVM IR compiled into memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count

import llvmlite.binding as llvm
import numpy as np

from featherlane.backends.llvm import targets


def widest(dtype: np.dtype) -> int:
    """The lanes of the host's widest vectors."""
    return targets.host().widest(dtype)


def target() -> str:
    """The host in LLVM's names, for the keys of the cache."""
    host = targets.host()
    return f"{host.triple} {host.cpu} {host.features}"


def machine_code(ir: str) -> bytes:
    """Compiles LLVM IR to an object file for the host."""
    return targets.machine_code(ir, targets.host())


class MachineCode:
    """An object file loaded into memory, where it stays as long as this object lives.

    names: the symbols whose addresses are wanted; symbols: the addresses of the external symbols
    that the code refers to.
    """

    _jit: llvm.LLJIT | None = None
    _names = count()

    def __init__(self, image: bytes, names: Sequence[str], symbols: Mapping[str, int]) -> None:
        if MachineCode._jit is None:
            targets.target_machine(targets.host())  # initialises LLVM
            # JITLink keeps sections close together, so that constants are addressed relative to
            # the code: 1 to 6 % faster, and large code loads 2.5 times faster (docs/performance.md,
            # "What else was tried"). On Windows RuntimeDyld links, which may place them far apart.
            MachineCode._jit = llvm.create_lljit_compiler(use_jit_link=os.name != "nt")
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, place in symbols.items():
            builder = builder.import_symbol(name, place)
        for name in names:
            builder = builder.export_symbol(name)
        self._library = builder.link(MachineCode._jit, f"featherlane{next(MachineCode._names)}")
        self._places = {name: int(self._library[name]) for name in names}

    def place(self, name: str) -> int:
        """The address of one of the wanted symbols."""
        return self._places[name]

    @property
    def address(self) -> int:
        """The address of the inner loop."""
        return self._places["loop"]
