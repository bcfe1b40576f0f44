"""This processor: what its vectors hold, and LLVM IR as machine code in memory."""

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
    """The processor that code is made for."""
    host = targets.host()
    return f"{host.triple} {host.cpu} {host.features}"


def machine_code(ir: str) -> bytes:
    """An object file for this machine."""
    return targets.machine_code(ir, targets.host())


class Code:
    """Machine code in memory, for as long as this object lives.

    image: an object file; names: the symbols whose addresses are wanted; symbols: the addresses of
    what the code itself refers to.
    """

    _jit: llvm.LLJIT | None = None
    _names = count()

    def __init__(self, image: bytes, names: Sequence[str], symbols: Mapping[str, int]) -> None:
        if Code._jit is None:
            targets.target_machine(targets.host())  # initialises LLVM
            together = os.name != "nt"  # the other linker may place parts too far from each other
            Code._jit = llvm.create_lljit_compiler(use_jit_link=together)
        builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name, place in symbols.items():
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
