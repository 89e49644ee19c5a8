"""Commands of scalable topics: look up and watch a layout (70, 72); register (73) and close (82) a stream consumer.

A watch and a registration live as long as their connection. Each is a different object than an earlier one of the same
number, so that a late end of the old one has no effect (H-F7). A registration that completes after its connection is
lost is released (H-F8). Refusals are the replies that end each kind of request. Layouts come from `scalable/watch`,
assignments from the controller; nothing is decided here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import AlreadyExists, LimitExceeded, MagnetarError, Refused, TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CONNECTION_WATCHES_MAX, WATCH_OBJECT_BYTES
from magnetar.base.names import Domain, TopicName, check_given, topic_name
from magnetar.broker.handlers.requests import error_reply, start, success
from magnetar.cluster.lookup import check_listener
from magnetar.cluster.topics import Charge, free
from magnetar.layout.routing import shares_by_buckets
from magnetar.scalable.consumers.assignment import Assignment
from magnetar.scalable.record.subscription import Type
from magnetar.scalable.watch.watches import WatchSession
from magnetar.topic.subscriptions.subscription import EXCLUSIVE
from magnetar.wire.proto import pb
from magnetar.wire.scalable import layouts
from magnetar.wire.scalable.layouts import ConsumerAssignment

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.node import Node
    from magnetar.topic.subscriptions.consumer import Consumer

_TYPES = {pb.STREAM: Type.STREAM, pb.CHECKPOINT: Type.CHECKPOINT}


def check_enabled(node: Node) -> None:
    if not node.scalable.enabled:
        raise Refused("scalable topics (topic://) are disabled on this broker (scalableTopicsEnabled)")


def check_plain(node: Node, name: TopicName) -> None:
    """Refuses producers and consumers of the scalable topic itself; the error names the supported ways."""
    if name.domain in (Domain.TOPIC, Domain.SEGMENT):
        check_enabled(node)
    if name.domain is Domain.TOPIC:
        raise Refused(
            f"{name} is a scalable topic: clients use its segments. Use a client that supports scalable topics "
            "(magnetar, or Pulsar's V5 client), or ask for its layout with SCALABLE_TOPIC_LOOKUP"
        )


# The watch


def lookup(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.scalableTopicLookup
    old = connection.layouts.pop(request.session_id, None)
    if old is not None:
        old.close()
    if len(connection.layouts) >= CONNECTION_WATCHES_MAX:
        text = f"a connection must not watch more than {CONNECTION_WATCHES_MAX} layouts: open another connection"
        connection.write(layouts.update_failed(request.session_id, LimitExceeded.wire, text))
        return
    try:
        connection.node.kept.check_objects(WATCH_OBJECT_BYTES)
    except LimitExceeded as error:
        connection.write(layouts.update_failed(request.session_id, error.wire_code, error.what))
        return
    session = WatchSession(
        connection,
        request.session_id,
        extended=_extended(connection),
        ended=lambda: _over(connection, session),
        listener=request.advertised_listener_name,
    )
    connection.layouts[session.id] = session
    start(connection, _lookup(connection, session, request), partial(layouts.update_failed, request.session_id))


async def _lookup(connection: Connection, session: WatchSession, request: pb.CommandScalableTopicLookup) -> None:
    node = connection.node
    try:
        check_enabled(node)
        name = _watched_name(request.topic)
        check_listener(node.ownership.me, session.listener)
        node.allow(connection.principal, "lookup", str(name))
        await connection.creations.paced(partial(find, node, name, create=request.create_if_missing))
    except BaseException:
        _over(connection, session)
        raise
    if not connection.closed and connection.layouts.get(session.id) is session:
        node.watches.open(name, session)


def _watched_name(text: str) -> TopicName:
    name = topic_name(text)
    if name.domain is Domain.NON_PERSISTENT:
        raise Refused(f"{name} is non-persistent and has no layout: use it as a plain topic")
    if name.domain is Domain.SEGMENT or name.is_partition:
        raise TopicNotFound(f"{name} is a part of a topic: request the layout of the whole topic")
    return name


async def find(node: Node, name: TopicName, *, create: bool, charge: Charge = free) -> None:
    """Ensures that the topic exists; creates it if the policies allow creation by clients."""
    if await node.scalable.read(name.scalable) is not None:
        return
    policies = await node.namespaces.policies(name.namespace)
    if policies is None:
        raise TopicNotFound(f"Namespace {name.namespace} does not exist: create it, or check the topic's name")
    if name.domain is Domain.PERSISTENT:
        return  # not created here: the first client that attaches creates it
    if not create or not node.settings.flag("allowAutoTopicCreation", policies):
        raise TopicNotFound(f"Scalable topic not found: {name}")
    await node.segments.plains.check_single(name)
    charge()
    try:
        await node.scalable.create(name)
    except AlreadyExists:
        pass  # another client created it concurrently


def close(connection: Connection, command: pb.BaseCommand) -> None:
    """The command has no reply; an unknown session is already closed."""
    session = connection.layouts.pop(command.scalableTopicClose.session_id, None)
    if session is not None:
        session.close()


def _over(connection: Connection, session: WatchSession) -> None:
    if connection.layouts.get(session.id) is session:
        del connection.layouts[session.id]


# Stream consumers


class StreamConsumerRegistration:
    """One stream consumer of one connection: implements the controller's `Listener`. The newest assignment wins."""

    def __init__(self, connection: Connection, request: pb.CommandScalableTopicSubscribe, topic: TopicName) -> None:
        self._connection = connection
        self.consumer_id = request.consumer_id
        self.topic = topic
        self.subscription = request.subscription
        self.name = request.consumer_name
        # A consumer that asks again is the same one; several of a client share its connection.
        self.connection = f"{connection.node.ownership.me.id}/{connection.generation}/{request.consumer_id}"
        self.shares = _shares(connection)
        self.session: int | None = None  # None: the controller has not answered yet
        self._newest: Assignment | None = None
        self._told: Assignment | None = None
        self._error: MagnetarError | None = None  # what ended it

    @property
    def connected(self) -> bool:
        return not self._connection.closed

    @property
    def over(self) -> bool:
        return self._error is not None

    def assigned(self, assignment: Assignment) -> None:
        self._newest = assignment
        if self.session is not None:
            self.session = assignment.session
        self.resume()

    def ended(self, error: MagnetarError) -> None:
        """Revokes the whole assignment and sends the reason to clients that support it (H-F9)."""
        self._error = error
        if self._connection.shares.get(self.consumer_id) is self:
            del self._connection.shares[self.consumer_id]
        self.resume()

    def answered(self, request_id: int, assignment: Assignment) -> bytes:
        """The answer is written before assignments that arrived during the request."""
        self.session = assignment.session
        self._told = assignment
        return layouts.subscribed(request_id, self._shared(assignment))

    def resume(self) -> None:
        connection = self._connection
        if self.session is None or connection.closed:
            return
        if self._error is not None:
            self._last_word(self._error)
        elif connection.congested:
            return
        elif self._newest is not None and self._newest != self._told:
            self._told = self._newest
            connection.write(layouts.assigned(self.consumer_id, self._shared(self._newest)))

    def _last_word(self, error: MagnetarError) -> None:
        """The final empty assignment: sent once, also to a peer that does not read, because it is never repeated."""
        assert self._told is not None
        nothing = self._shared(replace(self._newest or self._told, segments=()))
        why = (error.wire_code, error.what) if _extended(self._connection) else None
        self._connection.write(layouts.assigned(self.consumer_id, nothing, why))
        self.session, self._error = None, None

    def lost(self) -> None:
        """The connection is lost: the grace period starts."""
        if self.session is not None:
            scalable = self._connection.node.scalable
            scalable.connection_lost(self.topic, self.subscription, self.name, self.session)

    def reads(self, segment: TopicName, subscription: str, consumer_name: str) -> bool:
        """Whether the consumer of a segment belongs to this one, and the segment is in its last sent assignment."""
        segments = () if self._told is None or self.subscription != subscription else self._told.segments
        listed = next((one for one in segments if one.topic(self.topic) == segment), None)
        return listed is not None and consumer_name == f"{self.name}-seg-{listed.id}"

    async def leave(self) -> None:
        assert self.session is not None
        await self._connection.node.scalable.streams.leave(self.topic, self.subscription, self.name, self.session)

    def _shared(self, assignment: Assignment) -> pb.ScalableConsumerAssignment:
        shared = ConsumerAssignment(
            assignment.epoch,
            assignment.segments,
            assignment.generation,
            assignment.term,
            assignment.shared,
            assignment.shown_epoch,
        )
        return layouts.share(self.topic, shared, extended=_extended(self._connection))


def subscribe(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.scalableTopicSubscribe
    fail = partial(layouts.subscribe_failed, request.request_id)
    start(connection, _subscribe(connection, request), fail)


async def _subscribe(connection: Connection, request: pb.CommandScalableTopicSubscribe) -> None:
    node = connection.node
    check_enabled(node)
    requested = topic_name(request.topic)
    name = requested.scalable
    node.allow(connection.principal, "consume", str(requested))
    if requested.domain is not Domain.TOPIC:
        stand_in = partial(node.segments.plains.stand_in, _watched_name(request.topic))
        await connection.creations.paced(stand_in)
    if not request.subscription or not request.consumer_name:
        raise Refused("the subscription and the name of a stream consumer must not be empty")
    check_given(request.subscription, "subscription")
    check_given(request.consumer_name, "consumer")
    registration = StreamConsumerRegistration(connection, request, name)
    before = connection.shares.get(request.consumer_id)
    connection.shares[request.consumer_id] = registration
    if before is not None and (before.topic, before.subscription, before.name) != (
        name,
        registration.subscription,
        registration.name,
    ):
        before.lost()
    kind = _TYPES[request.consumer_type]
    makes = not request.resumes  # a subscription that existed before was removed (H-D9)
    says_where = makes and request.HasField("initial_position") and request.consumer_type == pb.STREAM
    try:
        if says_where:  # else the first to attach to a segment says where it starts there
            earliest = request.initial_position == pb.CommandSubscribe.Earliest
            await node.scalable.subscribe(name, request.subscription, kind, earliest=earliest)
        assignment = await node.scalable.register(
            name, request.subscription, request.consumer_name, request.consumer_id, kind, registration, makes=makes
        )
    except BaseException:
        if connection.shares.get(request.consumer_id) is registration:
            del connection.shares[request.consumer_id]
        raise
    answer = registration.answered(request.request_id, assignment)
    if connection.closed:
        registration.lost()  # no other code reports its end (H-F8)
    elif connection.shares.get(request.consumer_id) is not registration and not registration.over:
        await registration.leave()  # the client closed it during the request
    connection.write(answer)
    registration.resume()


def unsubscribe(connection: Connection, command: pb.BaseCommand) -> None:
    """Only a consumer of this connection can leave this way; an unknown one has already left. The field numbers of this
    command are a guess, so one without a request id is accepted."""
    request = command.scalableTopicUnsubscribe
    if not request.HasField("request_id"):
        connection.node.unknown_command(connection)
        return
    registration = connection.shares.pop(request.consumer_id, None) if request.HasField("consumer_id") else None
    if registration is None or registration.session is None:  # one that is being made leaves when it is done
        connection.write(success(request.request_id))
        return
    start(connection, _unsubscribe(registration, request.request_id), error_reply(request.request_id))


async def _unsubscribe(registration: StreamConsumerRegistration, request_id: int) -> bytes:
    await registration.leave()
    return success(request_id)


def segment_closed(connection: Connection, consumer: Consumer) -> None:
    """A client closed its consumer of a segment. If the consumer has not finished that assigned segment, the whole
    stream consumer leaves, because some clients signal it in no other way. A client that signals it explicitly also
    closes a segment to read it in another way. The consumer may be registered on another connection or broker."""
    if _shares(connection):
        return
    subscription = consumer.subscription
    assert subscription is not None
    topic = subscription.topic
    if not topic.name.is_persistent or not subscription.durable or subscription.type != EXCLUSIVE:
        return
    if topic.managed.terminated is not None and not subscription.backlog:
        return
    for id, registration in list(connection.shares.items()):
        if registration.reads(topic.name, subscription.name, consumer.name):
            del connection.shares[id]
            start(connection, _departed(registration), _unheard)
            return
    base, _, suffix = consumer.name.rpartition("-seg-")
    if topic.part_of is None or not base or not suffix.isdecimal():
        return
    segment = SegmentId(int(suffix))
    if topic.name.segment is None or topic.name.segment.id == segment:
        closed = connection.node.scalable.streams.segment_closed(topic.part_of, subscription.name, base, segment)
        start(connection, closed, _unheard)


async def _departed(registration: StreamConsumerRegistration) -> None:
    await registration.leave()


def _unheard(code: int, text: str) -> bytes:
    """No reply: the command has no request id. The session then ends with its connection."""
    return b""


def lost(connection: Connection) -> None:
    """The connection is lost with all its watches and registrations."""
    for session in connection.layouts.values():
        session.close()
    for watch in connection.memberships.values():
        watch.close()
    for registration in connection.shares.values():
        registration.lost()
    connection.layouts.clear()
    connection.memberships.clear()
    connection.shares.clear()


def resume(connection: Connection) -> None:
    """Called when the peer reads again."""
    for session in list(connection.layouts.values()):
        session.resume()
    for watch in connection.memberships.values():
        watch.resume()
    for registration in list(connection.shares.values()):
        registration.resume()


def _shares(connection: Connection) -> bool:
    """Whether the client supports entry buckets and announces when it leaves."""
    return _extended(connection) or shares_by_buckets(connection.client_version)


def _extended(connection: Connection) -> bool:
    return bool(connection.features is not None and connection.features.magnetar_extensions)
