"""A hold on a scalable topic: the broker keeps all messages after given positions for a reader that commits rarely.

One command creates, moves or ends a hold. A hold moves forward only, and each call renews it until it expires. Calls
are idempotent: an earlier position changes nothing. The command is a Magnetar extension: Apache Pulsar brokers do not
support it (`Refused`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.public import public
from magnetar.client.arguments import check_number, check_places, check_text
from magnetar.client.batch_read.plan import check_ours
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.lookup import Lookup
from magnetar.layout.readable_range import Around, ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plans import columns, read_around, read_places


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """A request. `places` None: only renew the hold. `release`: end it. `begins`: the places count only if the hold
    does not exist yet, so that a repeated call changes nothing; without places the request only asks for the hold, and
    raises SubscriptionNotFound if it does not exist. `resumes`: raise SubscriptionNotFound if the hold was ended, and
    do not create it again. `around`: the first positions of partly read chunked messages, which are kept too.
    """

    topic: str
    name: str
    places: Mapping[SegmentId, ReadPosition] | None = None
    expires_s: int = 0
    owner: str = ""
    incarnation: int = 0
    release: bool = False
    begins: bool = False
    resumes: bool = False
    around: Around = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a hold")
        if not self.name:
            raise Misuse("the name of a hold must not be empty", topic=self.topic)
        check_number(self.expires_s, "expires_s of a hold")
        check_number(self.incarnation, "incarnation")
        check_text(self.owner, "the owner of a hold")
        if self.places is not None:
            check_places(self.places, self.topic)


@public("magnetar")
@dataclass(frozen=True, slots=True)
class Hold:
    """The present hold. `places`: messages are kept from there on; segments before them are not kept, segments after
    them are kept whole. `expired`: the hold had expired before this call. `lost`: segments with deleted messages after
    the places. `moved`: the places moved forward, or the hold is new. `owner`: the owner before this call.
    """

    topic: str
    name: str
    places: Mapping[SegmentId, ReadPosition]
    until_ms: int
    moved: bool
    expired: bool
    lost: tuple[SegmentId, ...]
    incarnation: int
    around: Around = field(default_factory=dict)
    owner: str = ""


async def hold(lookup: Lookup, request: HoldRequest, timeout_s: float) -> Hold:
    return await persist(lookup.pool.runtime, timeout_s, lambda: _hold(lookup, request), what=f"hold {request.name}")


async def _hold(lookup: Lookup, request: HoldRequest) -> Hold:
    connection = await lookup.service()
    check_ours(connection, "holds")
    command = _command(request, connection.next_request_id())
    with lookup.moving_on(connection):
        reply = await connection.request(command, command.hold.request_id, timeout_s=lookup.timeout_s)
    response = reply.holdResponse
    return Hold(
        request.topic,
        request.name,
        read_places(response.places),
        response.until_ms,
        response.moved,
        response.expired,
        tuple(SegmentId(id) for id in response.lost_segment_id),
        response.incarnation,
        read_around(response.places),
        response.owner,
    )


def _command(request: HoldRequest, request_id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.HOLD)
    body = command.hold
    body.request_id = request_id
    body.topic = request.topic
    body.name = request.name
    if request.places is not None:
        body.places.CopyFrom(columns(request.places, request.around))
    if request.expires_s:
        body.expires_s = request.expires_s
    if request.owner:
        body.owner = request.owner
    if request.incarnation:
        body.incarnation = request.incarnation
    if request.begins:
        body.begins = True
    if request.resumes:
        body.resumes = True
    if request.release:
        body.release = True
    return command
