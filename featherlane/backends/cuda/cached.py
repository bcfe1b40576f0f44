"""Kernels through the cache on disk, as JSON: a later process neither traces nor writes text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from featherlane.backends import cache
from featherlane.backends.cuda.kernel_stage import Launch, Shape
from featherlane.backends.cuda.mappings import KernelWork
from featherlane.backends.cuda.stages import GpuKernels


def cached_kernels(key: str, make: Callable[[], GpuKernels]) -> GpuKernels:
    """The kernels of a key, read from disk, or computed and written there. Besides the key they
    depend on `cache.facts`; an entry that is damaged, or has other facts, is computed anew.
    """
    fresh: list[GpuKernels] = []

    def text() -> bytes:
        fresh.append(make())
        return written(fresh[0])

    code = cache.fetch(f"{key} ptx", text)
    return fresh[0] if fresh else read(code)


def written(kernels: GpuKernels) -> bytes:
    """Kernels as JSON."""
    return json.dumps(kernels._asdict()).encode()


def read(code: bytes) -> GpuKernels:
    """The kernels of `written`."""
    fields = json.loads(code)
    launches = tuple(_launch(*launch) for launch in fields.pop("launches"))
    inputs, outputs = _shapes(fields.pop("inputs")), _shapes(fields.pop("outputs"))
    texts, work = tuple(fields.pop("texts")), KernelWork(*fields.pop("work"))
    return GpuKernels(texts, launches, inputs, outputs, fields.pop("slots"), work)


def _launch(*fields: Any) -> Launch:
    launch = Launch(*fields)
    return launch._replace(arguments=tuple(launch.arguments))


def _shapes(shapes: dict[str, list[int]]) -> dict[str, Shape]:
    return {name: tuple(shape) for name, shape in shapes.items()}
