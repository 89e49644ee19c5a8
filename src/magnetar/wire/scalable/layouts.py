"""Encodes and decodes the layout of a scalable topic and the assignment of a stream consumer.

Every session that watches a topic gets its layout, so the layout is encoded once per change (`update_body`), and a
session adds its number to the bytes (`update`). Fields that Pulsar does not have (routing, term, incarnation,
generation) are sent only to peers that announced our extensions. Decoding validates the whole layout: an inconsistent
one raises `Corrupt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from magnetar.base.errors import Corrupt, InvalidRange
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.names import TopicName
from magnetar.base.ranges import HashRange
from magnetar.layout.layout import Layout
from magnetar.layout.routing import Routing
from magnetar.layout.segment import NEVER, Segment, State, bucket_ranges
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

_Type = pb.BaseCommand
_TYPE_TAG = b"\x08"  # field 1 of BaseCommand, a number
_UPDATE_TAG = _Type.SCALABLE_TOPIC_UPDATE << 3 | 2
_SESSION_TAG = b"\x08"
_UNKNOWN_ERROR = 0
_KNOWN_ERRORS = frozenset(pb.ServerError.values())


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of a broker; "" for a protocol that it does not serve. `listeners`: those of its listeners."""

    url: str = ""
    url_tls: str = ""
    listeners: Mapping[str, Address] = field(default_factory=dict)

    def at(self, listener: str) -> Address:
        """The addresses for clients of this listener; "" is the broker's own."""
        return self if not listener else self.listeners.get(listener, Address())


@dataclass(frozen=True, slots=True)
class LayoutUpdate:
    """The layout update of a watch. `owners`: the known owners of active segments."""

    layout: Layout
    owners: Mapping[SegmentId, Address]
    controller: Address | None = None
    routing: Routing | None = None
    term: int = 0
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """The segments of one stream consumer, and the leader that assigned them."""

    epoch: Epoch
    segments: tuple[Segment, ...]
    generation: int = 0
    term: int = 0
    shared: frozenset[SegmentId] = frozenset()  # segments shared with others by entry buckets
    shown_epoch: int = 0  # for peers that did not announce our extensions


# The watch


def update_body(topic: TopicName, shown: LayoutUpdate, *, extended: bool, listener: str = "") -> bytes:
    """The common bytes for every session of a listener, without the session's number."""
    update = pb.CommandScalableTopicUpdate(
        dag=dag(shown, extended, listener), resolved_topic_name=topic.scalable.canonical
    )
    body: bytes = update.SerializePartialToString()  # the required session number is added per session
    return body


def update(session_id: int, body: bytes) -> bytes:
    """SCALABLE_TOPIC_UPDATE to one session."""
    inner = _SESSION_TAG + _varint(session_id) + body
    command = _TYPE_TAG + _varint(_Type.SCALABLE_TOPIC_UPDATE) + _varint(_UPDATE_TAG) + _varint(len(inner)) + inner
    return (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command


def update_failed(session_id: int, code: int, text: str) -> bytes:
    """Ends the session on both sides."""
    response = pb.CommandScalableTopicUpdate(session_id=session_id, error=_error(code), message=text)
    return encode_command(pb.BaseCommand(type=_Type.SCALABLE_TOPIC_UPDATE, scalableTopicUpdate=response))


def read_layout(dag: pb.ScalableTopicDAG) -> Layout:
    """Decodes a layout from a watch. The id counter is not transmitted: the result has the lowest possible one."""
    try:
        segments = sorted((_segment(one) for one in dag.segments), key=lambda one: one.id)
        following = segments[-1].id + 1 if segments else 0
        return Layout(Epoch(dag.epoch), SegmentId(following), tuple(segments))
    except InvalidRange as error:
        raise Corrupt("the layout has an invalid hash range", why=str(error)) from error


def read_routing(dag: pb.ScalableTopicDAG) -> Routing | None:
    """None: absent, not pinned, or unknown to this version."""
    return Routing(dag.routing) if dag.routing in set(Routing) else None


# Stream consumers


def share(topic: TopicName, shared: ConsumerAssignment, *, extended: bool) -> pb.ScalableConsumerAssignment:
    assignment = pb.ScalableConsumerAssignment(layout_epoch=shared.epoch if extended else shared.shown_epoch)
    for segment in shared.segments:
        added = assignment.segments.add(
            segment_id=segment.id,
            hash_start=segment.range.start,
            hash_end=segment.range.end,
            segment_topic=segment.topic(topic).canonical,
        )
        if segment.id in shared.shared:
            for first, last in bucket_ranges(segment.bucket_splits):
                added.bucket_ranges.add(start=first, end=last)
    if extended:
        assignment.term = shared.term
        assignment.generation = shared.generation
    return assignment


def subscribed(request_id: int, assignment: pb.ScalableConsumerAssignment) -> bytes:
    response = pb.CommandScalableTopicSubscribeResponse(request_id=request_id, assignment=assignment)
    return _response(response)


def subscribe_failed(request_id: int, code: int, text: str) -> bytes:
    return _response(pb.CommandScalableTopicSubscribeResponse(request_id=request_id, error=_error(code), message=text))


def assigned(consumer_id: int, assignment: pb.ScalableConsumerAssignment, why: tuple[int, str] | None = None) -> bytes:
    """`why`: code and text of the error that ended the consumer, for peers that support our own fields."""
    update = pb.CommandScalableTopicAssignmentUpdate(consumer_id=consumer_id, assignment=assignment)
    if why is not None:
        update.error, update.message = _error(why[0]), why[1]
    kind = _Type.SCALABLE_TOPIC_ASSIGNMENT_UPDATE
    return encode_command(pb.BaseCommand(type=kind, scalableTopicAssignmentUpdate=update))


def _response(response: pb.CommandScalableTopicSubscribeResponse) -> bytes:
    kind = _Type.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE
    return encode_command(pb.BaseCommand(type=kind, scalableTopicSubscribeResponse=response))


def dag(shown: LayoutUpdate, extended: bool, listener: str = "") -> pb.ScalableTopicDAG:
    """The graph in the form of all commands that contain one."""
    layout = shown.layout
    dag = pb.ScalableTopicDAG(epoch=layout.epoch if extended else layout.shown_epoch)
    for segment in layout.segments:
        _add(dag, segment)
    for segment in layout.active:
        owner = shown.owners.get(segment.id)
        address = None if owner is None else owner.at(listener)
        if address is not None and (not listener or address.url or address.url_tls):
            brokers = dag.segment_brokers.add(segment_id=segment.id, broker_url=address.url)
            if address.url_tls:
                brokers.broker_url_tls = address.url_tls
    if shown.controller is not None:
        address = shown.controller.at(listener)
        if address.url:
            dag.controller_broker_url = address.url
        if address.url_tls:
            dag.controller_broker_url_tls = address.url_tls
    if extended:
        dag.term = shown.term
        if shown.incarnation:  # else a plain topic, which has no incarnation
            dag.incarnation = shown.incarnation
        if shown.routing is not None:
            dag.routing = shown.routing
    return dag


def _add(dag: pb.ScalableTopicDAG, segment: Segment) -> None:
    message = dag.segments.add(
        segment_id=segment.id,
        hash_start=segment.range.start,
        hash_end=segment.range.end,
        state=pb.ACTIVE if segment.is_active else pb.SEALED,
        parent_ids=segment.parents,
        child_ids=segment.children,
        created_at_epoch=segment.created_epoch,
        created_at_ms=segment.created_ms,
    )
    if segment.sealed_epoch >= 0:
        message.sealed_at_epoch = segment.sealed_epoch
    if segment.sealed_ms >= 0:
        message.sealed_at_ms = segment.sealed_ms
    if segment.legacy_topic:
        message.legacy_topic_name = segment.legacy_topic
    if segment.bucket_splits:
        message.entry_bucket_splits.extend(segment.bucket_splits)


def _segment(message: pb.SegmentInfoProto) -> Segment:
    return Segment(
        id=SegmentId(message.segment_id),
        range=HashRange(message.hash_start, message.hash_end),
        state=State.ACTIVE if message.state == pb.ACTIVE else State.SEALED,
        parents=_ids(message.parent_ids),
        children=_ids(message.child_ids),
        created_epoch=Epoch(message.created_at_epoch),
        created_ms=message.created_at_ms,
        sealed_epoch=Epoch(message.sealed_at_epoch if message.HasField("sealed_at_epoch") else NEVER),
        sealed_ms=message.sealed_at_ms if message.HasField("sealed_at_ms") else NEVER,
        legacy_topic=message.legacy_topic_name,
        bucket_splits=tuple(message.entry_bucket_splits),
    )


def _ids(ids: Sequence[int]) -> tuple[SegmentId, ...]:
    return tuple(SegmentId(id) for id in ids)


def _varint(value: int) -> bytes:
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _error(code: int) -> Any:
    """ServerError is a closed enum: a code unknown to the protocol would be lost in transit."""
    return code if code in _KNOWN_ERRORS else _UNKNOWN_ERROR
