"""Kernels through the cache on disk, as JSON: a later process neither traces nor writes text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from featherlane.backends import cache
from featherlane.backends.cuda.kernel import Launch, Shape
from featherlane.backends.cuda.mappings import Work
from featherlane.backends.cuda.stages import Kernels


def cached_kernels(key: str, make: Callable[[], Kernels]) -> Kernels:
    """The kernels of a key: read from disk, or made and written there. What they depend on besides
    the key is `cache.facts`; an entry that is damaged, or made from other facts, is made anew.
    """
    made: list[Kernels] = []

    def text() -> bytes:
        made.append(make())
        return written(made[0])

    code = cache.fetch(f"{key} ptx", text)
    return made[0] if made else read(code)


def written(kernels: Kernels) -> bytes:
    """Kernels as JSON."""
    return json.dumps(kernels._asdict()).encode()


def read(code: bytes) -> Kernels:
    """The kernels of `written`."""
    told = json.loads(code)
    launches = tuple(_launch(*launch) for launch in told.pop("launches"))
    inputs, outputs = _shapes(told.pop("inputs")), _shapes(told.pop("outputs"))
    texts, work = tuple(told.pop("texts")), Work(*told.pop("work"))
    return Kernels(texts, launches, inputs, outputs, told.pop("slots"), work)


def _launch(*fields: Any) -> Launch:
    launch = Launch(*fields)
    return launch._replace(arguments=tuple(launch.arguments))


def _shapes(told: dict[str, list[int]]) -> dict[str, Shape]:
    return {name: tuple(shape) for name, shape in told.items()}
