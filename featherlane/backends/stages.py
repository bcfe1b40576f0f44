"""Stages of a long build, for those who listen: the choice of formats, a schedule, synthesis.

What begins a stage need not know who listens, as with `progress.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], object]

_listener: ContextVar[Listener | None] = ContextVar("stages", default=None)


def begin(stage: str) -> None:
    """Tells that a stage begins, in words; the one before it has ended."""
    if (listen := _listener.get()) is not None:
        listen(stage)


@contextmanager
def told_to(listen: Listener | None) -> Iterator[None]:
    """Within the context, `listen` is called with each stage of this thread; None: nothing is."""
    token = _listener.set(listen)
    try:
        yield
    finally:
        _listener.reset(token)
