"""Memory that the package keeps from call to call."""

from __future__ import annotations

import sys

from featherlane.backends.cpu import results


def empty_cache() -> int:
    """Frees memory that the package keeps: the memory of dropped results, which it reuses for new
    results, and workspaces and copy buffers on GPUs. Returns the number of bytes freed. Results
    that are still alive are not affected, nor are workspaces that CUDA graphs have recorded.

    At most an eighth of the memory of the machine, or of the container, is kept for results; the
    environment variable FEATHERLANE_RESULTS sets another limit, such as 500M, 2G or off.

    Examples:
        >>> freed = fl.empty_cache()  # bytes
    """
    return results.empty_cache() + _empty_gpus()


def _empty_gpus() -> int:
    if "featherlane.backends.cuda.calls" not in sys.modules:  # no function was called on a GPU
        return 0
    from featherlane.backends.cuda import free_memory

    return free_memory.empty()
