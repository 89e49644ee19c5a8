"""Plain topics that clients of scalable topics use, and that are migrated: the part of their owner.

A plain topic is open to all clients until its migration starts. Then it is guarded, and its own record stores that:
durable subscriptions are created and deleted only through the record of its scalable topic. So the segments that follow
it miss no subscription when they get their cursors (H-D1). Producers continue until the topic is sealed. A migration
that is rolled back leaves the guard, which then admits all clients: it reads the current record for each request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

import msgspec

from magnetar.base.errors import (
    BadVersion,
    Conflict,
    Fenced,
    MagnetarError,
    Misuse,
    NotFound,
    NotReady,
    Refused,
    Sealed,
    SubscriptionNotFound,
)
from magnetar.base.ids import Term
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.segments.cursors import describe, given, life, place, start
from magnetar.broker.segments.queue_admission import check_moved, described
from magnetar.cluster.calls.topic_calls import (
    CursorPlacedReply,
    InspectPlainTopic,
    PlaceCursor,
    PlainClient,
    PlainFacts,
    PlainSubscription,
)
from magnetar.cluster.topics import Charge, free
from magnetar.layout.lag import Lag
from magnetar.layout.plain_layout import FOLLOWS, topics_of
from magnetar.observe.log import get
from magnetar.scalable.machines import admission, migration
from magnetar.scalable.record import record
from magnetar.scalable.record.record import NO_TERM, Lifecycle, Record
from magnetar.scalable.record.subscription import Start
from magnetar.topic.producers.admission import Admission
from magnetar.topic.seal import sealed
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, Subscription
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.broker.topics.topics import Topics
    from magnetar.cluster.topics import Catalogue
    from magnetar.runtime.runtime import Runtime
    from magnetar.scalable.service import ScalableTopics

log = get("plain_topics")

_OF_SEGMENT = re.compile(r"-seg-\d+$")  # as stream consumers name what they attach to a segment
_CLIENTS_OWN = ("-DLQ", "-RETRY")  # how the names of topics end that clients make for themselves
GUARD_PROPERTY = "magnetar.guarded"  # of the managed ledger: the operation that began to migrate the topic


class PlainTopicsNode(Protocol):
    """What PlainTopics uses of the node."""

    runtime: Runtime
    catalogue: Catalogue
    scalable: ScalableTopics
    topics: Topics


class PlainTopics:
    def __init__(self, node: PlainTopicsNode) -> None:
        self._node = node

    # Records that stand for plain topics

    async def stand_in(self, name: TopicName, *, charge: Charge = free) -> Record:
        """The record of a plain topic. A missing record is created, and the topic too if its use by a client may create
        it. For a migrated topic it is the record of its scalable topic."""
        records, scalable = self._node.scalable.records, name.scalable
        while True:
            before, version = await records.fresh(scalable)
            if before is not None and before.lifecycle is Lifecycle.DELETING:
                raise NotReady(f"{scalable} is being deleted: try again")
            if before is not None and before.is_live and not before.is_plain:
                return before
            topics = await self.topics(name, create=True, charge=charge)
            if before is not None and before.is_live:
                changed = before.grown(topics)
            else:
                changed = record.plain(before, topics, now_ms=self._node.runtime.wall())
            if changed == before:
                return changed
            try:
                await records.put(scalable, changed, version)
            except BadVersion:
                continue  # another writer was faster: read the record again
            return changed

    async def topics(self, name: TopicName, *, create: bool, charge: Charge = free) -> tuple[str, ...]:
        """The topics that hold the messages of a plain or partitioned one. TopicNotFound."""
        count = await self._node.catalogue.partitions(name, create=create, charge=charge)
        topics = topics_of(name, count)
        for topic in topics:
            await self.admit(topic_name(topic), create=create or count > 0, charge=free if count else charge)
        return topics

    async def admit(self, name: TopicName, *, create: bool, charge: Charge = free) -> None:
        """Admits a client of a plain topic: the topic exists, or is created if the policies allow it. The name of a
        migrated or scalable topic is not given to another topic."""
        catalogue = self._node.catalogue
        if create and name.domain is Domain.PERSISTENT:
            if await catalogue.exists(name):
                return
            await self.check_single(name)
        await catalogue.admit(name, create=create, charge=charge)

    async def check_free(self, name: TopicName) -> None:
        """Raises Refused for the name of a migrated topic or of one of its partitions."""
        await self._scalable_of(name)

    async def check_single(self, name: TopicName) -> None:
        """Called before a client creates a topic by using it. Refused: a topic of the other kind has this name. Clients
        of scalable topics mean that one by both names, so some clients would use the plain topic and others not. An
        administrator may create both, as in Pulsar. Clients name retry and dead-letter topics after the topic as they
        requested it, so these may exist in both kinds."""
        own = name.partitioned.local_name.endswith(_CLIENTS_OWN)
        if name.domain is not Domain.TOPIC:
            if await self._scalable_of(name) is not None and not own:
                raise Refused(f"a scalable topic of this name exists: use {name.scalable} or another name")
        elif not own and (plain := _plain_of(name)) is not None and await self._exists(plain):
            words = (
                f"a plain topic of this name exists: `magnetar topic migrate {plain}` converts it to a scalable topic"
            )
            raise Refused(f"{words}; otherwise use the plain name or another name")

    async def _scalable_of(self, name: TopicName) -> Record | None:
        """The scalable topic with the name of a plain one. Refused: the plain topic was migrated and is a part of
        it."""
        record = None if name.domain is not Domain.PERSISTENT else await self._node.scalable.read(name.scalable)
        if record is None or record.is_plain:
            return None
        if any(one.legacy_topic for one in record.layout.segments):
            words = f"{name.partitioned_name} was migrated: use, terminate and delete it as {name.scalable}"
            raise Refused(words, http_status=409)
        return record

    async def _exists(self, name: TopicName) -> bool:
        catalogue = self._node.catalogue
        return await catalogue.exists(name) or await catalogue.partitioned(name) is not None

    async def check_seek(self, subscription: Subscription) -> None:
        """Refused: the subscription belongs to a scalable topic, whose cursors move together only (H-D7). NotReady: the
        migration is in progress. The cursor of a reader may move freely."""
        topic = subscription.topic
        if not subscription.durable or topic.part_of is None:
            return
        record = await self._node.scalable.read(topic.part_of)
        if not topic.name.is_segment and (record is None or (record.is_plain and not record.is_migrating)):
            return
        if record is not None and record.is_plain:
            raise NotReady(f"{topic.name.partitioned_name} is being migrated to {topic.part_of}: try again later")
        raise Refused(
            f"{topic.name} is a part of {topic.part_of} and "
            f"subscription {subscription.name} belongs to the whole topic. "
            f"Seek it with `magnetar subscription seek {topic.part_of} {subscription.name}` "
            "or a client that supports scalable topics"
        )

    async def term(self, name: TopicName) -> Term:
        """The term for the termination or deletion of a plain topic by an administrator: after a rolled-back migration,
        the term of that leader. Conflict: the topic is being migrated."""
        record = None if name.domain is not Domain.PERSISTENT else await self._node.scalable.read(name.scalable)
        if record is not None and record.is_migrating:
            raise Conflict(f"{name.partitioned_name} is being migrated to {name.scalable}: try again later")
        return record.term if record is not None and record.is_plain else NO_TERM

    async def forget(self, name: TopicName) -> None:
        """The plain topic was deleted: deletes its record too, with its subscriptions."""
        record = None if name.domain is not Domain.PERSISTENT else await self._node.scalable.read(name.scalable)
        if record is not None and record.is_plain and not name.is_partition:
            try:
                await self._node.scalable.delete(name.scalable, force=True)
            except MagnetarError as error:  # led elsewhere, as a rule: it stands for a topic that comes again, or none
                log.warning("plain_topic_record_kept", topic=str(name), error=str(error))

    async def forget_partitions(self, name: TopicName) -> None:
        """A partition of a migrated topic was deleted: deletes the partition count too."""
        record, _ = await self._node.scalable.records.fresh(name.scalable)
        if record is not None and not record.is_live:
            try:
                await self._node.catalogue.forget_partitioned(name)
            except NotFound:
                pass  # with the partition before

    async def grown(self, name: TopicName) -> None:
        """The number of partitions increased: updates the record, if one exists."""
        record = None if name.domain is not Domain.PERSISTENT else await self._node.scalable.read(name.scalable)
        if record is not None and record.is_plain:
            await self.stand_in(name)

    # What leaders ask

    async def handle(self, name: TopicName, request: PlaceCursor | InspectPlainTopic) -> CursorPlacedReply | PlainFacts:
        topic = await self._node.topics.get(name, create=isinstance(request, InspectPlainTopic) and request.guard)
        assert isinstance(topic, Topic)
        try:
            return await self._handle(topic, name, request)
        except Fenced as error:  # an owner that writes nothing learns of another owner only through the record
            self._node.topics.failed(topic, error)
            raise NotReady(f"another broker owned {topic.name} in between; it is being reopened: try again") from error

    async def _handle(
        self, topic: Topic, name: TopicName, request: PlaceCursor | InspectPlainTopic
    ) -> CursorPlacedReply | PlainFacts:
        if isinstance(request, InspectPlainTopic):
            if request.guard:
                await self._guard(topic, request.op)
                await topic.subscriptions.settled()  # what was let in before the guard stood
            lags = {one.name: await one.lag.measure() for one in topic.subscriptions} if request.lags else None
            return _facts(topic, lags)
        key = request.subscription
        stored, _ = await self._node.scalable.records.subscription(name.scalable, key.name)
        admission.check_cursor(stored, key.life)
        assert stored is not None
        key = msgspec.structs.replace(key, properties=stored.properties)
        await place(topic, key, at_end=request.at_end, asked=stored.start is Start.ASKED)
        return CursorPlacedReply()

    # The guard

    async def _guard(self, topic: Topic, op: str) -> None:
        """The guard is stored first, so that the next owner of the topic guards it too."""
        if GUARD_PROPERTY not in topic.managed.properties:
            await topic.managed.set_properties({GUARD_PROPERTY: op})
        if topic.part_of is None:
            self.guarded(topic)
            for subscription in topic.subscriptions:
                subscription.cursor.on_durable(subscription.caught_up)
            self._node.runtime.mark("plain.guarded", topic=str(topic.name), op=op)
            log.info("plain_topic_guarded", topic=str(topic.name), op=op)

    def guarded(self, topic: Topic) -> None:
        """Activates the guard of a loaded topic according to its record."""
        topic.part_of = topic.name.scalable
        passes = False  # what the record said when it was read last

        async def consume(request: Subscribe) -> None:
            nonlocal passes
            passes = await self._consume(topic, request)
            if not passes:
                await self._describe(topic, request)
            if not passes and topic.managed.terminated is not None:
                _make_way(topic, request)

        def durable_cursor(name: str) -> None:
            if not passes:
                raise SubscriptionNotFound(
                    f"{topic.name} is a part of {topic.part_of}, which has no subscription {name}: create it there"
                )

        topic.admission = Admission(durable_cursor=durable_cursor, attach=start, consume=consume)

    async def _consume(self, topic: Topic, request: Subscribe) -> bool:
        """Returns True if the topic is plain and all clients are admitted. Otherwise the subscription exists and has
        the right type when this returns."""
        scalable, name = self._node.scalable, topic.name.scalable
        record = await scalable.read(name)
        if record is None or (record.is_plain and not record.is_migrating):
            return True
        stored, _ = await scalable.records.subscription(name, request.subscription)
        if stored is not None and stored.incarnation != record.incarnation:
            stored = None
        segment = next((each.id for each in record.layout.segments if each.legacy_topic == str(topic.name)), None)
        if stored is not None and segment is not None:
            check_moved(scalable, name, stored, segment, request)
            if not record.is_plain and not _is_new(request):
                migration.check_left(stored, segment)
        if migration.check_consumer(stored, request.kind):
            return False
        if stored is None and not (request.creates and topic.settings.auto_subscription):
            raise SubscriptionNotFound(
                f"{name} has no subscription {request.subscription}, "
                "and it is not created automatically: create it first"
            )
        if stored is None and not (record.is_plain or request.earliest or _follows(request.metadata)):
            raise _too_late(topic)
        await scalable.subscribe(name, request.subscription, migration.type_of(request.kind), earliest=request.earliest)
        return False

    async def _describe(self, topic: Topic, request: Subscribe) -> None:
        """Restores the properties of the subscription, also those from before the migration, because segments use the
        record."""
        subscription = topic.subscriptions.get(request.subscription)
        properties = ({} if subscription is None else given(subscription.cursor.properties)) or given(
            request.properties
        )
        if properties:
            properties = dict(
                await described(self._node.scalable, topic.name.scalable, request.subscription, properties)
            )
        await describe(subscription, properties)


def _too_late(topic: Topic) -> MagnetarError:
    """The error for a subscription that would start behind the last message of a sealed topic. It would receive
    nothing, and would prevent trimming on the segments that follow. A start at the earliest message still receives
    messages here."""
    words = sealed(topic, topic.managed.last).what
    return Sealed(f"{words}: a new subscription must start at the earliest message")


def _make_way(topic: Topic, request: Subscribe) -> None:
    """Closes old consumers on a sealed topic in favour of one that follows to the new segments, even if they have not
    read it to its end. Their unacknowledged messages are redelivered to the new consumer. They may return when it has
    left."""
    subscription = topic.subscriptions.get(request.subscription)
    if (
        subscription is None
        or not _is_new(request)
        or (request.kind == subscription.type and request.kind != EXCLUSIVE)
    ):
        return
    for consumer in list(subscription.consumers):
        if not (_follows(consumer.metadata) or _streams(subscription, consumer)):
            log.info(
                "old_consumer_closed", topic=str(topic.name), consumer=consumer.name, follower=request.consumer_name
            )
            topic.subscriptions.close_consumer(consumer)


def _is_new(request: Subscribe) -> bool:
    """Whether the client supports scalable topics."""
    return _follows(request.metadata) or _OF_SEGMENT.search(request.consumer_name) is not None


def _plain_of(name: TopicName) -> TopicName | None:
    """The plain topic of the same name. None: such a name cannot exist, for example with a slash."""
    try:
        plain = topic_name(f"{Domain.PERSISTENT}://{name.namespace}/{name.local_name}")
    except Misuse:
        return None
    return plain if plain.scalable == name else None


def is_guarded(properties: Mapping[str, str]) -> bool:
    return GUARD_PROPERTY in properties


def _facts(topic: Topic, lags: dict[str, Lag] | None = None) -> PlainFacts:
    durable = [one for one in topic.subscriptions if one.durable]
    kinds = [one.type if one.consumers and one.type is not None else -1 for one in durable]
    clients = [
        PlainClient(one.name, one.address, one.outlet.client_version, follows=_follows(one.metadata))
        for one in topic.producers
    ]
    clients += [
        PlainClient(
            each.name,
            each.address,
            each.outlet.client_version,
            one.name,
            _follows(each.metadata) or _streams(one, each),
        )
        for one in topic.subscriptions
        for each in one.consumers
    ]
    return PlainFacts(
        tuple(PlainSubscription(one.name, kind, one.backlog) for one, kind in zip(durable, kinds, strict=True)),
        tuple(clients),
        topic.managed.messages,
        topic.managed.bytes,
        lags,
    )


def _streams(subscription: Subscription, consumer: Consumer) -> bool:
    """Whether this is a stream consumer: the Java client 5.0.0-M1 does not mark these, because no broker of its release
    accepts them."""
    return life(subscription) >= 0 and _OF_SEGMENT.search(consumer.name) is not None


def _follows(metadata: Mapping[str, str]) -> bool:
    key, text = FOLLOWS
    return metadata.get(key) == text
