"""What a connection tells the producers and consumers attached to it.

Contracts only. Every call is made on the loop, in the order things arrived; none of them may wait or raise.
"""

from __future__ import annotations

from typing import Protocol

from magnetar.base.errors import MagnetarError
from magnetar.wire.pushes import MessageParts


class ProducerSink(Protocol):
    """What a connection tells the producer attached to it."""

    def receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        """Sequence `sequence` (up to `highest`, -1 if unsaid) is stored; ledger -1: it was there already."""
        ...

    def send_error(self, sequence: int, error: MagnetarError) -> None: ...

    def closed_by_broker(self, url: str) -> None:
        """The broker let go of it; it is detached already. `url` says where to go at once, "" to look up again."""
        ...

    def connection_lost(self, error: MagnetarError) -> None:
        """The connection is gone and everything attached to it with it."""
        ...

    def writable_again(self) -> None:
        """The socket takes bytes again after `congested`."""
        ...


class ConsumerSink(Protocol):
    """What a connection tells the consumer attached to it."""

    def message(self, parts: MessageParts, entry: bytes) -> None:
        """One entry: what follows the command, checksum not yet verified."""
        ...

    def active(self, is_active: bool) -> None: ...

    def reached_end(self) -> None: ...

    def closed_by_broker(self, url: str) -> None: ...

    def connection_lost(self, error: MagnetarError) -> None: ...
