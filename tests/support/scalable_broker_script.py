"""A broker of one scalable topic that does what a test tells it: layouts, seals, shares, messages when the test says.

What clients need by themselves is answered as the recorded exchanges with a real Pulsar 5 show it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import topic_name
from magnetar.client.connection.lookup import Lookup
from magnetar.layout.layout import Layout, initial
from magnetar.layout.routing import Routing
from magnetar.wire import broker_frames, commands
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from tests.unit.client.world import Broker, Link, Sent, a_broker, a_lookup

K = pb.BaseCommand
TOPIC = topic_name("topic://public/default/t")


class Scaled:
    """`ours`: it answers as Magnetar does, with our own fields, else as Pulsar 5.0.0-M1."""

    def __init__(self, broker: Broker, layout: Layout, *, ours: bool = True) -> None:
        self.broker = broker
        self.layout = layout
        self.ours = ours
        self.routing: Routing | None = None
        self.controller: layouts.Address | None = None
        self.incarnation = 1
        self.version = "Magnetar-test" if ours else "Pulsar Server5.0.0-M1"
        self.scalable = True
        self.watching: dict[int, Link] = {}  # sessions
        self.producers: dict[int, tuple[str, Link]] = {}  # id -> topic, connection
        self.last_sequence: dict[str, int] = {}  # what an owner says at PRODUCER
        self.refusals: dict[str, list[int]] = {}  # topic -> codes of the next PRODUCER or SUBSCRIBE
        self.registered: dict[int, Link] = {}  # stream consumers
        self.consumers: dict[int, tuple[str, Link]] = {}
        self.share: layouts.ConsumerAssignment | None = None  # what the next registration is answered with
        for kind, handler in {
            K.CONNECT: self._connect,
            K.SCALABLE_TOPIC_LOOKUP: self._watch,
            K.SCALABLE_TOPIC_CLOSE: self._unwatch,
            K.PRODUCER: self._produce,
            K.CLOSE_PRODUCER: self._leave,
            K.SCALABLE_TOPIC_SUBSCRIBE: self._register,
            K.SCALABLE_TOPIC_UNSUBSCRIBE: self._depart,
            K.SUBSCRIBE: self._subscribe,
            K.CLOSE_CONSUMER: self._close_consumer,
        }.items():
            broker.handlers[kind] = handler

    # What the test does

    def show(self, layout: Layout | None = None) -> None:
        """Push the layout to everybody who watches."""
        self.layout = layout if layout is not None else self.layout
        for session, link in self.watching.items():
            link.write(self._update(session))

    def gone(self) -> None:
        for session, link in self.watching.items():
            link.write(layouts.update_failed(session, pb.TopicNotFound, "gone"))
        self.watching.clear()

    def name(self, segment: int) -> str:
        return str(self.layout.segment(SegmentId(segment)).topic(TOPIC))

    def sent(self, segment: int) -> list[Sent]:
        """What came for a segment, in order."""
        ids = {
            command.producer.producer_id
            for command in self.broker.kinds(K.PRODUCER)
            if command.producer.topic == self.name(segment)
        }
        return [sent for sent in self.broker.sent if sent.producer in ids]

    def seal(self, segment: int, *, receipts: int = 0, close: bool = True) -> None:
        """The rule of sealing: receipts of what was stored, errors of what was refused, then the close."""
        waiting = self.sent(segment)
        for place, sent in enumerate(waiting):
            if place < receipts:
                sent.receipt(place)
            else:
                sent.link.write(commands.send_error(sent.producer, sent.sequence, pb.TopicTerminatedError, "sealed"))
        for id, (topic, link) in list(self.producers.items()):
            if close and topic == self.name(segment):
                del self.producers[id]
                link.write(commands.close_producer(id))

    def assign(self, *segments: int, generation: int = 1) -> None:
        """Push a share to every stream consumer."""
        self.share = self.a_share(*segments, generation=generation)
        for id, link in self.registered.items():
            link.write(layouts.assigned(id, layouts.share(TOPIC, self.share, extended=self.ours)))

    def a_share(self, *segments: int, generation: int = 1) -> layouts.ConsumerAssignment:
        chosen = tuple(self.layout.segment(SegmentId(id)) for id in segments)
        return layouts.ConsumerAssignment(Epoch(self.layout.epoch), chosen, generation)

    def consumer(self, segment: int) -> int:
        """The id of the consumer that is attached to a segment."""
        return next(id for id, (topic, _) in self.consumers.items() if topic == self.name(segment))

    def deliver(self, segment: int, entry: int, body: bytes) -> None:
        id = self.consumer(segment)
        self.consumers[id][1].write(broker_frames.message(id, 100 + segment, entry, body))

    def end(self, segment: int) -> None:
        id = self.consumer(segment)
        self.consumers[id][1].write(commands.reached_end_of_topic(id))

    # What it answers

    def _connect(self, link: Link, command: pb.BaseCommand) -> bool:
        flags = pb.FeatureFlags(supports_topic_watchers=True, supports_scalable_topics=self.scalable)
        if self.ours:
            flags.magnetar_extensions = 1
        link.write(commands.connected(self.version, 21, self.broker.message_bytes_max, flags))
        return True

    def _update(self, session: int) -> bytes:
        shown = layouts.LayoutUpdate(
            self.layout, {}, controller=self.controller, routing=self.routing, incarnation=self.incarnation
        )
        return layouts.update(session, layouts.update_body(TOPIC, shown, extended=self.ours))

    def _watch(self, link: Link, command: pb.BaseCommand) -> bool:
        session = command.scalableTopicLookup.session_id
        self.watching[session] = link
        link.write(self._update(session))
        return True

    def _unwatch(self, link: Link, command: pb.BaseCommand) -> bool:
        self.watching.pop(command.scalableTopicClose.session_id, None)
        return True

    def _produce(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.producer
        codes = self.refusals.get(asked.topic)
        if codes:
            link.write(commands.error(asked.request_id, codes.pop(0), "no"))
            return True
        self.producers[asked.producer_id] = (asked.topic, link)
        last = self.last_sequence.get(asked.topic, -1)
        link.write(commands.producer_success(asked.request_id, asked.producer_name, last_sequence_id=last))
        return True

    def _leave(self, link: Link, command: pb.BaseCommand) -> bool:
        self.producers.pop(command.close_producer.producer_id, None)
        link.write(commands.success(command.close_producer.request_id))
        return True

    def _register(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.scalableTopicSubscribe
        codes = self.refusals.get(asked.topic)
        if codes:
            link.write(layouts.subscribe_failed(asked.request_id, codes.pop(0), "no"))
            return True
        self.registered[asked.consumer_id] = link
        share = self.share if self.share is not None else self.a_share(*(one.id for one in self.layout.active))
        assignment = layouts.share(TOPIC, share, extended=self.ours)
        # The newcomer is told before it is answered, as recorded.
        link.write(layouts.assigned(asked.consumer_id, assignment) + layouts.subscribed(asked.request_id, assignment))
        return True

    def _depart(self, link: Link, command: pb.BaseCommand) -> bool:
        self.registered.pop(command.scalableTopicUnsubscribe.consumer_id, None)
        link.write(commands.success(command.scalableTopicUnsubscribe.request_id))
        return True

    def _subscribe(self, link: Link, command: pb.BaseCommand) -> bool:
        asked = command.subscribe
        codes = self.refusals.get(asked.topic)
        if codes:
            link.write(commands.error(asked.request_id, codes.pop(0), "no"))
            return True
        self.consumers[asked.consumer_id] = (asked.topic, link)
        link.write(commands.success(asked.request_id))
        return True

    def _close_consumer(self, link: Link, command: pb.BaseCommand) -> bool:
        self.consumers.pop(command.close_consumer.consumer_id, None)
        link.write(commands.success(command.close_consumer.request_id))
        return True


@asynccontextmanager
async def a_scaled(segments: int = 1, **said: Any) -> AsyncIterator[tuple[Scaled, Lookup]]:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        yield Scaled(broker, initial(segments, now_ms=0), **said), lookup
