"""The symbols that object files want from others: ELF, Mach-O and COFF files of 64-bit systems."""

from __future__ import annotations

import struct


def undefined(image: bytes) -> set[str]:
    """The names of the symbols that an object file does not define."""
    if image[:4] == b"\x7fELF":
        return _of_elf(image)
    if image[:4] == b"\xcf\xfa\xed\xfe":
        return _of_mach_o(image)
    return _of_coff(image)


def _text(image: bytes, at: int) -> str:
    return image[at : image.index(b"\0", at)].decode()


def _of_elf(image: bytes) -> set[str]:
    order = {1: "<", 2: ">"}[image[5]]
    (table,) = struct.unpack_from(f"{order}Q", image, 40)
    size, count = struct.unpack_from(f"{order}HH", image, 58)
    read = struct.Struct(f"{order}IIQQQQIIQQ")
    sections = [read.unpack_from(image, table + k * size) for k in range(count)]
    (symbols,) = [section for section in sections if section[1] == 2]
    names, found = sections[symbols[6]][4], set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, info, _, section = struct.unpack_from(f"{order}IBBH", image, at)
        if info >> 4 and not section:
            found.add(_text(image, names + name))
    return found - {""}


def _of_mach_o(image: bytes) -> set[str]:
    (count,), at = struct.unpack_from("<I", image, 16), 32
    found = set()
    for _ in range(count):
        kind, size = struct.unpack_from("<II", image, at)
        if kind == 2:  # LC_SYMTAB
            symbols, number, names, _ = struct.unpack_from("<IIII", image, at + 8)
            for k in range(number):
                name, kind_of = struct.unpack_from("<IB", image, symbols + 16 * k)
                if kind_of & 0x0E == 0 and kind_of & 1:  # N_UNDF, external
                    found.add(_text(image, names + name).removeprefix("_"))
        at += size
    return found


def _of_coff(image: bytes) -> set[str]:
    table, number = struct.unpack_from("<II", image, 8)
    names, found, k = table + 18 * number, set(), 0
    while k < number:
        at = table + 18 * k
        _, section, _, storage, more = struct.unpack_from("<IhHBB", image, at + 8)
        if section == 0 and storage == 2:  # undefined, external
            zeros, place = struct.unpack_from("<II", image, at)
            short = image[at : at + 8].rstrip(b"\0").decode("latin-1")
            found.add(short if zeros else _text(image, names + place))
        k += 1 + more
    return found
