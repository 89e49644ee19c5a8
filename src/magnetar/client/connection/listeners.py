"""What a connection tells the producers, consumers and watches attached to it.

Every call is made on the loop, in the order things arrived; none of them may wait or raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb


class ProducerListener(Protocol):
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


class ConsumerListener(Protocol):
    """What a connection tells the consumer attached to it."""

    def message(self, parts: MessageParts, entry: bytes) -> None:
        """One entry: what follows the command, checksum not yet verified."""
        ...

    def active(self, is_active: bool) -> None: ...

    def reached_end(self) -> None: ...

    def closed_by_broker(self, url: str) -> None: ...

    def connection_lost(self, error: MagnetarError) -> None: ...


Heard = Callable[[Any], None]  # the body of the command
Lost = Callable[[MagnetarError], None]

_K = pb.BaseCommand
# What is pushed to a watch: the field of its body, and the one that says which watch.
_PUSHES: dict[int, tuple[str, str]] = {
    _K.WATCH_TOPIC_UPDATE: ("watchTopicUpdate", "watcher_id"),
    _K.SCALABLE_TOPIC_UPDATE: ("scalableTopicUpdate", "session_id"),
    _K.WATCH_SCALABLE_TOPICS_UPDATE: ("watchScalableTopicsUpdate", "watch_id"),
    _K.SCALABLE_TOPIC_ASSIGNMENT_UPDATE: ("scalableTopicAssignmentUpdate", "consumer_id"),
}


class ConnectionListeners:
    """Who hears of what the broker says of its own accord: by the kind of the command and the number of the watch."""

    def __init__(self) -> None:
        self._by_number: dict[tuple[int, int], tuple[Heard, Lost | None]] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def add(self, kind: int, number: int, heard: Heard, lost: Lost | None = None) -> None:
        self._by_number[(kind, number)] = (heard, lost)

    def remove(self, kind: int, number: int) -> None:
        self._by_number.pop((kind, number), None)

    def tell(self, command: pb.BaseCommand) -> None:
        body_name, number_name = _PUSHES[command.type]
        body = getattr(command, body_name)
        found = self._by_number.get((command.type, getattr(body, number_name)))
        if found is not None:  # else given up by us, and this was on its way
            found[0](body)

    def lost(self, error: MagnetarError) -> None:
        """The connection is gone: all of them are told once."""
        listeners, self._by_number = self._by_number, {}
        for _, lost in listeners.values():
            if lost is not None:
                lost(error)
