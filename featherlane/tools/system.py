"""The facts on this machine and on compiled code: `featherlane info --system` and `cache`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from featherlane.api.model import Model
from featherlane.backends import cache, progress
from featherlane.backends.cpu import native
from featherlane.backends.cpu.threads.pool import ThreadPool, thread_pool
from featherlane.functions.fast_path import why_not_native
from featherlane.tools.bench import machine
from featherlane.tools.progress import ProgressLine


def of_system() -> tuple[dict[str, Any], str]:
    """Returns the machine, the versions, and what runs calls and threads, as data and as text."""
    facts = machine()
    reason = why_not_native()
    facts["calls"] = f"NumPy: {reason}" if reason else "machine code"
    compiled = isinstance(thread_pool(), ThreadPool)
    facts["threads"] = "machine code" if compiled else f"those of Python: {native.refusal()}"
    facts["cache"] = str(cache.folder() or "off")
    return facts, "\n".join(f"{name:12} {value}" for name, value in facts.items())


def of_cache(clear: bool = False, limit: int | None = None) -> tuple[dict[str, Any], str]:
    """Clears and limits the cache where asked to, and returns what it holds then, as data and as
    text. Raises ValueError if it is turned off or its folder cannot be read or written.
    """
    try:
        deleted = cache.clear() if clear else 0
        if limit is not None:
            cache.set_limit(limit)
        store = cache.summary()
    except OSError as error:
        raise ValueError(f"the cache of compiled code in {cache.folder()}: {error}") from error
    if store is None:
        if clear or limit is not None:
            raise ValueError("FEATHERLANE_CACHE is off: there is no cache")
        return {"folder": None}, "the cache of compiled code is off"
    lines = [
        f"folder   {store.folder}",
        f"entries  {store.entries}, of which this installation can use {store.current}",
        f"size     {store.size / 1e6:.1f} MB of at most {store.limit / 1e6:.1f} MB",
    ]
    if clear:
        lines.append(f"deleted  {deleted}")
    data = {**store._asdict(), "folder": str(store.folder), "deleted": deleted}
    return data, "\n".join(lines)


def of_compilation(
    model: Model, functions: Sequence[str], dtypes: Iterable[str], **options: bool
) -> tuple[dict[str, Any], str]:
    """Compiles functions of a robot into the cache and returns the times, as data and as text.
    options: those of `Model.compile`. Raises ValueError if the cache is off.
    """
    folder = cache.folder()
    if folder is None:
        raise ValueError("FEATHERLANE_CACHE is off: compiled code would be lost with this process")
    start, rows = time.perf_counter(), list[dict[str, Any]]()
    with ProgressLine(sys.stderr) as line, progress.listening(line.goes_on):
        for dtype in dtypes:
            times = model.compile(functions, dtype=dtype, **options)
            rows += [{"function": f, "dtype": dtype, "seconds": s} for f, s in times.items()]
    seconds = time.perf_counter() - start
    row = "{:42}{:>9}{:>12.3g}".format
    lines = [f"{'function':42}{'dtype':>9}{'seconds':>12}", *[row(*r.values()) for r in rows]]
    lines.append(f"compiled into {folder} in {seconds:.3g} s, some of them at once")
    data = {"robot": model.name, "functions": rows, "seconds": seconds, "folder": str(folder)}
    return data, "\n".join(lines)
