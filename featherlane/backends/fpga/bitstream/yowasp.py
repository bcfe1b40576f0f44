"""Runs a tool of YoWASP with a deep stack: python yowasp.py PACKAGE FUNCTION [ARGUMENT ...]

WebAssembly gets half a MiB of stack by default, in which Yosys does not read a module of some
hundred multipliers.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import wasmtime

STACK = 2 << 20  # bytes: more needs a larger stack of asynchronous calls, which Python cannot set


class DeepStack(wasmtime.Config):
    """A configuration of WebAssembly with that stack, instead of the default."""

    def __init__(self) -> None:
        super().__init__()
        self.max_wasm_stack = STACK


def main() -> int:
    package, function, *arguments = sys.argv[1:]
    wasmtime.Config = DeepStack  # type: ignore[misc]  # what the package's runtime makes
    run = getattr(import_module(package), function)
    threading.stack_size(2 * STACK)  # the stack of a thread holds WebAssembly's
    with ThreadPoolExecutor(1) as pool:
        return int(pool.submit(run, arguments).result())


if __name__ == "__main__":
    sys.exit(main())
