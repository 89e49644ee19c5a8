"""The callbacks from a connection to the producers, consumers and watches attached to it.

Every callback runs on the event loop, in the order in which data arrived. A callback must not block or raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.wire.client_readers import MessageParts
from magnetar.wire.proto import pb


class ProducerListener(Protocol):
    """The callbacks from a connection to the producer attached to it."""

    def receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        """Sequence `sequence` (up to `highest`; -1: not given) is stored. Ledger -1: it is a duplicate."""
        ...

    def send_error(self, sequence: int, error: MagnetarError) -> None: ...

    def closed_by_broker(self, url: str) -> None:
        """The broker closed the producer, which is already detached. `url` is the next broker; "": look it up again."""
        ...

    def connection_lost(self, error: MagnetarError) -> None:
        """The connection ended, and with it every attachment on it."""
        ...

    def writable_again(self) -> None:
        """The socket accepts bytes again after `congested`."""
        ...


class ConsumerListener(Protocol):
    """The callbacks from a connection to the consumer attached to it."""

    def message(self, parts: MessageParts, entry: bytes) -> None:
        """One entry: the bytes after the command, with the checksum not yet verified."""
        ...

    def active(self, is_active: bool) -> None: ...

    def reached_end(self) -> None: ...

    def closed_by_broker(self, url: str) -> None: ...

    def connection_lost(self, error: MagnetarError) -> None: ...


Heard = Callable[[Any], None]  # the body of the command
Lost = Callable[[MagnetarError], None]

_K = pb.BaseCommand
# Commands that are pushed to a watch: the field of the body, and the field with the number of the watch.
_PUSHES: dict[int, tuple[str, str]] = {
    _K.WATCH_TOPIC_UPDATE: ("watchTopicUpdate", "watcher_id"),
    _K.SCALABLE_TOPIC_UPDATE: ("scalableTopicUpdate", "session_id"),
    _K.WATCH_SCALABLE_TOPICS_UPDATE: ("watchScalableTopicsUpdate", "watch_id"),
    _K.SCALABLE_TOPIC_ASSIGNMENT_UPDATE: ("scalableTopicAssignmentUpdate", "consumer_id"),
}


class ConnectionListeners:
    """Routes the commands that a broker pushes, by the kind of the command and the number of the watch."""

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
        listener = self._by_number.get((command.type, getattr(body, number_name)))
        if listener is not None:  # None: closed here while the push was in flight
            listener[0](body)

    def lost(self, error: MagnetarError) -> None:
        """The connection ended: notify every listener once."""
        listeners, self._by_number = self._by_number, {}
        for _, lost in listeners.values():
            if lost is not None:
                lost(error)
