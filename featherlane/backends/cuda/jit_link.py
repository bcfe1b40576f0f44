"""NVIDIA's linker as a compiler of texts (the library nvJitLink, which PyTorch and the CUDA toolkit
bring): threads compile with it side by side, where the driver compiles one text after the other.
Both keep machine code in CUDA's cache on disk.
"""

from __future__ import annotations

from typing import Any

Capability = tuple[int, int]  # of a device, such as 9, 0


class Linker:
    """nvJitLink, by the package cuda-bindings."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def machine_code(self, text: str, capability: Capability) -> bytes | None:
        """The machine code of a text for devices of a compute capability; None where the library
        refuses, of which the driver's own compiler can say why.
        """
        library, data = self.library, text.encode()
        options = ["-arch=sm_{}{}".format(*capability)]
        try:
            handle = library.create(len(options), options)
            try:
                library.add_data(handle, library.InputType.PTX, data, len(data), "kernels")
                library.complete(handle)
                code = bytearray(library.get_linked_cubin_size(handle))
                library.get_linked_cubin(handle, code)
            finally:
                library.destroy(handle)
        except library.nvJitLinkError:
            return None
        return bytes(code)


def linker() -> Linker | None:
    """The linker, None where the library or its bindings are missing."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError):  # the latter where the library is not found
        return None
    return Linker(nvjitlink)
