"""A hash of this package's text, which identifies the package that compiled an entry of the
cache.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType
from typing import Any


def package_hash() -> str:
    """The hash of all modules of this package, from its folder, a zip file or a frozen program.

    Raises ImportError if a module is missing.
    """
    from hashlib import sha256  # loads OpenSSL

    digest = sha256()
    for spec in _modules(find_spec("featherlane")):
        text = _text(spec)
        digest.update(f"{spec.name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def last_change() -> float:
    """The last time that a file of the package was written, in seconds since 1970; 0 without
    files.
    """
    spec = find_spec("featherlane")
    if spec is None:
        return 0.0
    archive = getattr(spec.loader, "archive", None)
    files = [archive] if archive else []
    for folder in () if archive else spec.submodule_search_locations or ():
        for path, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            files += [os.path.join(path, name) for name in names if name.endswith((".py", ".pyc"))]
    statuses = [os.stat(file) for file in files]
    return max((max(status.st_mtime, status.st_ctime) for status in statuses), default=0.0)


def _modules(spec: ModuleSpec | None) -> Iterator[ModuleSpec]:
    """A module and all modules below it, in the order of their names, without importing them."""
    if spec is None or spec.loader is None:
        raise ImportError("a module of featherlane cannot be found")
    yield spec
    below = pkgutil.iter_modules(spec.submodule_search_locations or (), spec.name + ".")
    for module_info in sorted(below, key=lambda module: module.name):
        yield from _modules(module_info.module_finder.find_spec(module_info.name, None))  # type: ignore[call-arg]


def _text(spec: ModuleSpec) -> bytes:
    """The text of a module, or its byte code where it was shipped without text."""
    loader: Any = spec.loader
    with contextlib.suppress(OSError):
        if spec.origin and spec.origin.endswith(".py"):
            return loader.get_data(spec.origin)
    return _of_code(loader.get_code(spec.name))


def _of_code(code: CodeType) -> bytes:
    """The instructions, names and constants of a module."""
    constants = [_of_constant(x) for x in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants)).encode()


def _of_constant(x: object) -> object:
    """A constant with the same text in each process: the order of sets differs between
    processes.
    """
    return (
        _of_code(x)
        if isinstance(x, CodeType)
        else sorted(map(repr, x))
        if isinstance(x, frozenset)
        else repr(x)
    )
