"""A producer attached to a topic: its identity, its messages in flight, and the order of its answers.

Answers to one producer are sent in the order of its messages. An answer that is known immediately (a duplicate, a bad
checksum) waits behind the publication in flight before it, because the stock client drops a connection that answers out
of order (SC-A0.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.names import SINK_PREFIX, TopicName
from magnetar.topic.client_channel import ClientChannel

if TYPE_CHECKING:
    from magnetar.topic.nonpersistent import NonPersistentTopic
    from magnetar.topic.producers.publish import Publication
    from magnetar.topic.topic import Topic


OURS = "Magnetar-"  # clients of ours, by their version


class Producer:
    __slots__ = (
        "access_mode",
        "address",
        "base",
        "bytes_in",
        "closed",
        "connected_ms",
        "encrypted",
        "epoch",
        "id",
        "in_flight",
        "last",
        "messages_in",
        "metadata",
        "name",
        "on_idle",
        "outlet",
        "schema_version",
        "sink",
        "spreads",
        "topic",
        "topic_epoch",
        "user_named",
    )

    def __init__(
        self,
        producer_id: int,
        name: str,
        outlet: ClientChannel,
        topic: Topic | NonPersistentTopic,
        *,
        epoch: int = 0,
        user_named: bool = True,
        access_mode: int = 0,
    ) -> None:
        self.id = producer_id
        self.name = name
        self.base = base_name(topic.name, name)
        self.sink = self.base.startswith(SINK_PREFIX)
        self.outlet = outlet
        self.topic = topic
        self.epoch = epoch
        self.user_named = user_named
        self.spreads = user_named and outlet.client_version.startswith(OURS)  # by number what has no key (H-E5)
        self.access_mode = access_mode
        self.topic_epoch: int | None = None
        self.schema_version = b""
        self.metadata: dict[str, str] = {}
        self.encrypted = False
        self.connected_ms = 0
        self.address = outlet.peer
        self.closed = False
        self.in_flight = 0
        self.last: Publication | None = (
            None  # the newest publication in flight: what must be answered later hangs there
        )
        self.on_idle: Callable[[], None] | None = None
        self.messages_in = 0
        self.bytes_in = 0

    def answer(self, frames: bytes) -> None:
        """Send an answer that needs no storage, behind everything of this producer that is still in flight."""
        if self.last is None:
            self.outlet.write(frames)
        elif self.last.after is None:
            self.last.after = [frames]
        else:
            self.last.after.append(frames)

    def settled(self, publication: Publication) -> None:
        """One publication is through; called by it, after its own answer went out."""
        self.in_flight -= 1
        if self.last is publication:
            self.last = None
        if self.in_flight == 0 and self.on_idle is not None:
            idle, self.on_idle = self.on_idle, None
            idle()

    def when_idle(self, call: Callable[[], None]) -> None:
        """Calls back when nothing is in flight: a closing producer gets its answer after that of its last message."""
        if self.in_flight == 0:
            call()
        else:
            self.on_idle = call


def base_name(topic: TopicName, producer: str) -> str:
    """What deduplication knows a producer by. Java names those of a segment after it, `name-seg-3`; the next segment
    must find what this one knew (H-E4).
    """
    return producer if topic.segment is None else producer.removesuffix(f"-seg-{topic.segment.id}")
