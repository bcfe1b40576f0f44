"""Functions as they travel to other processes, and as those keep them."""

from __future__ import annotations

import pickle
import threading
from functools import lru_cache
from hashlib import sha256
from typing import Any

from featherlane.functions.function import Function

LOADED = 64  # functions that a process keeps
_loading = threading.Lock()


class PackedFunction:
    """A function's pickle: it has the robot, or the graph, but no code, which each process takes
    from its cache on disk.
    """

    def __init__(self, content: bytes) -> None:
        self.content, self.digest = content, sha256(content).hexdigest()[:16]

    @classmethod
    def of(cls, function: Function) -> PackedFunction:
        return cls(pickle.dumps(function, pickle.HIGHEST_PROTOCOL))

    def __reduce__(self) -> Any:
        return PackedFunction, (self.content,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedFunction) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.digest)

    def __dask_tokenize__(self) -> str:
        return self.digest

    def unpacked(self) -> Function:
        """The function, the same one for all chunks in a process: its code is loaded once."""
        with _loading:
            return _unpacked(self.content)


@lru_cache(LOADED)
def _unpacked(content: bytes) -> Function:
    return pickle.loads(content)


def prepared(packed: PackedFunction, dtype: Any, single: bool = False) -> PackedFunction:
    """The function, after its code is in this process and in the cache on disk. single: also the
    code for calls with one state.
    """
    packed.unpacked().prepare(dtype, single)
    return packed
