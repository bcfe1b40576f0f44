"""The facts on this machine and on compiled code that `featherlane cache` shows."""

from __future__ import annotations

from typing import Any

from featherlane.backends import cache


def of_cache(clear: bool = False, limit: int | None = None) -> tuple[dict[str, Any], str]:
    """Clears and limits the cache where asked to, and returns what it holds then, as data and as
    text. Raises ValueError if it is turned off or its folder cannot be read or written.
    """
    try:
        deleted = cache.clear() if clear else 0
        if limit is not None:
            cache.set_limit(limit)
        found = cache.summary()
    except OSError as error:
        raise ValueError(f"the cache of compiled code in {cache.folder()}: {error}") from error
    if found is None:
        if clear or limit is not None:
            raise ValueError("FEATHERLANE_CACHE is off: there is no cache")
        return {"folder": None}, "the cache of compiled code is off"
    lines = [
        f"folder   {found.folder}",
        f"entries  {found.entries}, of which this installation can use {found.current}",
        f"size     {found.size / 1e6:.1f} MB of at most {found.limit / 1e6:.1f} MB",
    ]
    if clear:
        lines.append(f"deleted  {deleted}")
    data = {**found._asdict(), "folder": str(found.folder), "deleted": deleted}
    return data, "\n".join(lines)
