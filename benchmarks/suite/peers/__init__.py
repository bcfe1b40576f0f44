"""Other libraries on the cases of the suite, each at its best setting: the list PEERS.

Every adapter is optional: nothing of a peer is imported before `prepare` is called.
"""

from __future__ import annotations

from .base import Case, Peer, Prepared, Unsupported

PEERS: tuple[Peer, ...] = ()

__all__ = ["PEERS", "Case", "Peer", "Prepared", "Unsupported"]
