"""A subscription of a topic: a cursor, the dispatcher of its type, and the consumers attached.

The attached consumers define the type; without any, a consumer of another type may attach. Acknowledgements go to the
cursor first, then to the dispatcher's record of delivered messages. A seek closes the attached consumers, which return
with fresh permits (SC-A6.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import ConsumerBusy, Refused, SubscriptionNotFound
from magnetar.base.ids import Position
from magnetar.base.limits import ACK_SET_WORDS_MAX
from magnetar.ledger.cursor.cursor import Cursor
from magnetar.ledger.run import Run
from magnetar.observe.log import get
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.dispatch.shared import SharedDispatcher
from magnetar.topic.dispatch.single import SingleActive
from magnetar.topic.incomplete_chunks import IncompleteChunks
from magnetar.topic.producers.admission import Admitted
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.early_acks import EarlyAcks
from magnetar.topic.subscriptions.lag import LagMeter
from magnetar.wire import commands
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

log = get("subscription")

EXCLUSIVE = int(pb.CommandSubscribe.Exclusive)
SHARED = int(pb.CommandSubscribe.Shared)
FAILOVER = int(pb.CommandSubscribe.Failover)
KEY_SHARED = int(pb.CommandSubscribe.Key_Shared)
TYPE_NAMES = {EXCLUSIVE: "Exclusive", SHARED: "Shared", FAILOVER: "Failover", KEY_SHARED: "Key_Shared"}


class Dispatcher(Protocol):
    """What every way of handing out offers to its subscription."""

    consumers: list[Consumer]
    read_position: Position

    def join(self, consumer: Consumer) -> None: ...
    def leave(self, consumers: Collection[Consumer]) -> None: ...
    def appended(self, run: Run) -> None: ...
    def acked(self, consumer: Consumer | None, positions: list[Position]) -> None: ...
    def acked_to(self, position: Position) -> None: ...
    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None: ...
    def rewind(self) -> None: ...
    def reconsider(self) -> None: ...
    def pump(self) -> None: ...
    def close(self) -> None: ...


class Subscription:
    def __init__(self, topic: Topic, name: str, cursor: Cursor) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.type: int | None = None  # None until the first consumer attaches
        # Of a consumer that reads ahead of unacknowledged ancestors; kept after it has left.
        self.early: EarlyAcks | None = None
        self.dispatcher: Dispatcher = SingleActive(self, failover=False)
        self.kept_for_seek = False  # a reader's cursor outlives the disconnection that its own seek caused
        self.seeking: asyncio.Event | None = None  # no consumer attaches until a seek is on disk and answered
        self.admissions = 0  # raised when consumers that are about to attach must be admitted again (H-F20)
        self.leftover = IncompleteChunks(self)
        self.lag = LagMeter(self)
        self.messages_acked = 0
        self.messages_out = 0  # to consumers that have left; those attached count for themselves
        self.bytes_out = 0
        if topic.part_of is not None:
            cursor.on_durable(self.caught_up)

    @property
    def durable(self) -> bool:
        return self.cursor.durable

    @property
    def consumers(self) -> list[Consumer]:
        return self.dispatcher.consumers

    @property
    def mark(self) -> Position:
        return self.cursor.mark

    @property
    def backlog(self) -> int:
        return self.cursor.backlog

    def is_acked(self, position: Position) -> bool:
        """Whether the whole entry is acknowledged, also before the ancestors of the segment are done (H-F20)."""
        return self.cursor.is_acked(position) or (self.early is not None and self.early.is_acked(position))

    def untouched(self, position: Position) -> bool:
        """No entry from this one on is acknowledged or was delivered again."""
        return self.cursor.untouched(position) and (self.early is None or self.early.untouched(position))

    def start(self) -> Position:
        """The first entry that is not acknowledged."""
        mark = self.cursor.mark if self.early is None else max(self.cursor.mark, self.early.mark)
        return self.cursor.next_unacked(self.topic.managed.after(mark))

    # Consumers

    def attach(self, consumer: Consumer, kind: int) -> None:
        """Refuses with ConsumerBusy or ConsumerAssignError, and then nothing has changed."""
        if self.consumers and self.type is not None:
            if kind != self.type:
                raise ConsumerBusy(
                    f"subscription {self.name} is {TYPE_NAMES[self.type]} and has consumers: "
                    f"a {TYPE_NAMES[kind]} consumer must wait until they disconnect, or use another subscription",
                    topic=str(self.topic.name),
                )
            if kind == EXCLUSIVE:
                holder = self.consumers[0]
                raise ConsumerBusy(
                    "Exclusive consumer is already connected", subscription=self.name, holder=holder.name
                )
        if kind != self.type or (kind == KEY_SHARED and not self.consumers):
            dispatcher = self._dispatcher(kind, consumer)
            self.dispatcher.close()
            self.dispatcher, self.type = dispatcher, kind
        consumer.subscription = self
        self.kept_for_seek = False
        try:
            self.dispatcher.join(consumer)
        except Refused:
            consumer.subscription = None
            raise

    def begin(self, admitted: Admitted | None) -> None:
        """For a consumer that has just attached. Early acknowledgements of the previous reader of a segment stay. They
        count now if all ancestors of the segment are drained (H-F20)."""
        kept, had = self.early, self.early is not None
        if kept is not None and (admitted is None or kept.seeks != admitted.seeks):
            kept = None
            self.drop_early()
        if admitted is not None and admitted.early:
            self.early = kept or EarlyAcks(admitted.seeks, self.topic.managed.config.acks)
        else:
            self._apply_early()
        if had:
            self.dispatcher.rewind()  # `attach` began behind the kept acknowledgements, which may be dropped now

    def answered(self, consumer: Consumer) -> None:
        """Its client has the answer to SUBSCRIBE: messages may flow."""
        consumer.answered = True
        if isinstance(self.dispatcher, SingleActive):
            self.dispatcher.answered(consumer)
        self.dispatcher.pump()

    def detach(self, consumers: Collection[Consumer]) -> None:
        """Together: the dispatcher decides once what becomes of all that they had."""
        for consumer in consumers:
            consumer.closed = True
        attached = [consumer for consumer in consumers if consumer.subscription is self]
        for consumer in attached:
            self.messages_out += consumer.messages_out
            self.bytes_out += consumer.bytes_out
        if attached:
            self.dispatcher.leave(attached)
        for consumer in consumers:
            consumer.subscription = None

    def disconnect_all(self) -> None:
        """Asks every consumer to come back: it looks the topic up and subscribes again."""
        self.topic.subscriptions.close_consumers(list(self.consumers))

    def _dispatcher(self, kind: int, first: Consumer) -> Dispatcher:
        if kind == SHARED:
            return SharedDispatcher(self)
        if kind == KEY_SHARED:
            return KeySharedDispatcher(self, first.key_shared)
        return SingleActive(self, failover=kind == FAILOVER)

    # Acknowledgements

    def ack(self, consumer: Consumer | None, acks: list[tuple[Position, list[int] | None]]) -> None:
        """Single entries, or with words: messages of a batch (set bits stay unacknowledged).

        A batch is taken to be as long as its words: a client that says nothing, or less, about its size loses nothing
        by it.
        """
        last = self.topic.managed.last
        by_index = self.topic.settings.batch_index_acks
        if self.early is not None and consumer is not None:
            words_max = ACK_SET_WORDS_MAX if by_index else 0
            self.early.add([ack for ack in acks if ack[0] <= last and len(ack[1] or ()) <= words_max])
            return
        refused = self.cursor.refused
        whole: list[Position] = []
        lowered = False
        for position, words in acks:
            if position > last:
                continue  # nothing there yet: an acknowledgement from another life, or a lie
            if words is not None and not (by_index and len(words) <= ACK_SET_WORDS_MAX):
                continue  # longer than any batch, or switched off: the batch is acknowledged when all of it is
            if words is None or self.cursor.ack_bits(position, words, 64 * len(words)):
                whole.append(position)
            elif consumer is not None and (left := self.cursor.open_messages(position)) is not None:
                lowered |= consumer.pending.lower(position, left) > 0
        if lowered:
            self.dispatcher.pump()  # the cap on unacknowledged messages may have room now
        self.cursor.ack(whole)
        if self.cursor.refused > refused:  # those stay with their consumer, and are delivered again when it has left
            log.warning(
                "acknowledgements_not_kept",
                subscription=self.name,
                topic=str(self.topic.name),
                gaps=self.cursor.holes,
            )
            whole = [position for position in whole if self.cursor.is_acked(position)]
        if not whole:
            return
        self.messages_acked += len(whole)
        self.dispatcher.acked(consumer, whole)
        self.topic.acked(self)

    def ack_to(self, consumer: Consumer | None, position: Position, words: list[int] | None) -> None:
        """Everything up to and with this entry; with words only part of the entry itself."""
        if self.type in (SHARED, KEY_SHARED):
            log.warning(
                "cumulative_ack_ignored", subscription=self.name, type=TYPE_NAMES[self.type], topic=str(self.topic.name)
            )
            return
        managed = self.topic.managed
        if position > managed.last:
            return  # as above: clamping it would acknowledge messages that were never delivered
        if self.early is not None and consumer is not None:
            self.early.add_until(position, words)
            return
        by_index = self.topic.settings.batch_index_acks and len(words or ()) <= ACK_SET_WORDS_MAX
        if words is not None and not (by_index and self.cursor.ack_bits(position, words, 64 * len(words))):
            position = managed.before(position)
        self.cursor.ack_to(position)
        self.dispatcher.acked_to(position)
        self.topic.acked(self)

    def apply_early(self, seeks: int) -> None:
        """All ancestors of the segment are done: the early acknowledgements of its consumer now count (H-F20)."""
        if self.early is not None and self.early.seeks == seeks:
            self._apply_early()
        self.admissions += 1

    def _apply_early(self) -> None:
        early, self.early = self.early, None
        if early is not None:
            early.apply(self)

    def drop_early(self) -> None:
        """An ancestor of the segment has to be delivered again (H-F20), or the subscription is moved."""
        early, self.early = self.early, None
        if early is not None:
            early.release()
            early.over.set()

    def release(self) -> None:
        """The topic leaves memory, or the subscription is deleted: its memory is charged no more."""
        self.cursor.release()
        if self.early is not None:
            self.early.release()

    def redeliver(self, consumer: Consumer, positions: list[Position] | None) -> None:
        self.dispatcher.redeliver(consumer, positions)

    async def clear_to(self, position: Position) -> None:
        """Acknowledge everything up to and with `position`, whichever consumer holds it. Durable when it returns."""
        position = min(position, self.topic.managed.last)
        unread = position >= self.dispatcher.read_position
        self.cursor.ack_to(position)
        self.dispatcher.acked_to(position)
        if unread:
            self.dispatcher.rewind()  # reading continues after it, even if another read is under way
        self.dispatcher.pump()
        self.topic.acked(self)
        await self.cursor.flush()

    async def seek(self, position: Position) -> None:
        """The next delivered entry is this one, or the first existing one behind it. Durable when it returns."""
        if self.topic.subscriptions.get(self.name) is not self:
            raise SubscriptionNotFound(f"subscription {self.name} was deleted")
        self.admissions += 1  # a consumer that was admitted before the seek is admitted again
        managed = self.topic.managed
        target = managed.next_valid(max(position, managed.first))
        self.kept_for_seek = True
        self.drop_early()
        self.disconnect_all()
        self.dispatcher.close()
        self.cursor.reset(managed.before(target))
        self.dispatcher.rewind()
        # The stock client sends its pending acknowledgements when it hears that the seek has ended. They belong to the
        # time before the seek and must find its consumer detached, not attached again.
        done = self.seeking = asyncio.Event()
        try:
            await self.cursor.flush()
        finally:
            done.set()
            if self.seeking is done:
                self.seeking = None

    async def seek_time(self, publish_time_ms: int) -> None:
        """As `seek`, to the first entry published at or after this time."""
        await self.seek(await self.topic.managed.find(publish_time_ms))

    # From the topic

    def appended(self, run: Run) -> None:
        self.dispatcher.appended(run)

    def caught_up(self, position: Position) -> None:
        """Everything readable was sent: on a terminated topic, notify the consumers once all of it is acknowledged. For
        a segment this waits until the acknowledgements are on disk: a notified consumer leaves permanently, and no
        consumer would take the messages that a crash brings back (H-F2).
        """
        terminated = self.topic.managed.terminated
        if terminated is None:
            return
        if self.cursor.mark < terminated:
            if position > terminated:
                self.topic.stir(self)  # all of it went out
            self.leftover.look()
            return
        if self.topic.part_of is not None and not self.cursor.drained(terminated):
            return  # notified after the flush
        for consumer in self.consumers:
            # The stock C++ client drops its connection at this command (SC-A3).
            informed = consumer.reached_end or consumer.outlet.client_version.startswith("Pulsar-CPP")
            if not informed and consumer.outlet.protocol_version >= 9:
                consumer.reached_end = True
                consumer.outlet.write(commands.reached_end_of_topic(consumer.id))
