"""The binding of LLVM, loaded when its first name is used: it takes as long to import as half of
this package, and programs that only load robots, trace or write C do not need it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import llvmlite.binding

    return getattr(llvmlite.binding, name)
