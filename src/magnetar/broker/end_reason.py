"""The reason why a broker ends by itself, in words for logs, probes and people."""

from __future__ import annotations

from magnetar.base.errors import MagnetarError, SessionLost, StorageFull


def end_reason(failure: MagnetarError) -> str:
    """Which part failed: the storage of this broker, or its session with the metadata store."""
    if isinstance(failure, SessionLost):
        return "the session with the metadata store was lost"
    return "the disk is full" if isinstance(failure, StorageFull) else "a write to disk failed"
