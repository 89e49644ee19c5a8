"""Plans for readers in batches: how far a scalable topic is readable from given positions, and the amount of data.

One request to any broker, which answers from indexes and includes the layout: with both, the same range can be read
again later, regardless of splits and merges. The command is a Magnetar extension: Apache Pulsar brokers do not support
it (`Refused`). The last layouts are cached, so that an unchanged layout is not sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from magnetar.base.errors import Corrupt, Misuse, Refused
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import CLIENT_LAYOUTS_KEPT_MAX
from magnetar.base.public import public
from magnetar.client.arguments import SHOWN_CHARS_MAX, check_number, check_places, check_text, is_publish_ms
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Lookup
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import ReadableRange, ReadPosition
from magnetar.layout.routing import Routing
from magnetar.wire.proto import pb
from magnetar.wire.scalable.layouts import read_layout, read_routing
from magnetar.wire.scalable.plans import columns, read_stretches

From = Literal["start", "earliest", "latest"]

_WORDS = {"start": pb.FROM_START, "earliest": pb.FROM_EARLIEST, "latest": pb.FROM_LATEST}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """`start` applies to segments without a place. "start": the first message ever (a deleted one counts as a loss);
    "earliest": the first that still exists; "latest": after the last; a number: the first published at or after that
    time in milliseconds."""

    topic: str
    places: Mapping[SegmentId, ReadPosition]
    start: From | int = "start"
    messages_max: int = 0
    bytes_max: int = 0
    targets: Mapping[SegmentId, ReadPosition] | None = None
    publish_times: bool = False
    subscription: str = ""

    def __post_init__(self) -> None:
        check_places(self.places, self.topic)
        if self.targets is not None:
            check_places(self.targets, self.topic)
        check_number(self.messages_max, "messages_max of a plan")
        check_number(self.bytes_max, "bytes_max of a plan")
        check_text(self.subscription, "the subscription that a plan is for")
        start: object = self.start
        if not (start in _WORDS if isinstance(start, str) else isinstance(start, int) and is_publish_ms(start)):
            words = 'start of a plan must be "start", "earliest", "latest" or a publish time in milliseconds since 1970'
            raise Misuse(words, given=repr(start)[:SHOWN_CHARS_MAX])


@public("magnetar")
@dataclass(frozen=True, slots=True)
class Plan:
    """`stretches`: the measured segments, by id; a missing segment comes later. `layout` and `incarnation`: the graph
    of segments, and the incarnation of the topic.
    """

    topic: str
    incarnation: int
    layout: Layout
    stretches: Mapping[SegmentId, ReadableRange]
    routing: Routing | None = None

    @property
    def epoch(self) -> Epoch:
        return self.layout.epoch


class PlanClient:
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: dict[str, Plan] = {}  # without stretches, in the order of use

    async def plan(self, asking: PlanRequest, timeout_s: float) -> Plan:
        return await persist(
            self._lookup.pool.runtime, timeout_s, lambda: self._plan(asking), what=f"plan of {asking.topic}"
        )

    async def _plan(self, asking: PlanRequest) -> Plan:
        connection = await self._lookup.service()
        check_ours(connection, "plans")
        plan = self._known.get(asking.topic)
        command = _command(asking, plan, connection.next_request_id())
        with self._lookup.moving_on(connection):
            reply = await connection.request(command, command.plan.request_id, timeout_s=self._lookup.timeout_s)
        response = reply.planResponse
        if response.HasField("dag"):
            plan = Plan(asking.topic, response.incarnation, read_layout(response.dag), {}, read_routing(response.dag))
            self._keep(plan)
        elif plan is None or (plan.incarnation, plan.epoch) != (response.incarnation, response.epoch):
            raise Corrupt("the broker sent a plan without its layout", topic=asking.topic, epoch=response.epoch)
        return Plan(plan.topic, plan.incarnation, plan.layout, read_stretches(response.stretches), plan.routing)

    def _keep(self, plan: Plan) -> None:
        self._known.pop(plan.topic, None)
        self._known[plan.topic] = plan
        if len(self._known) > CLIENT_LAYOUTS_KEPT_MAX:
            del self._known[next(iter(self._known))]


def check_ours(connection: Connection, what: str) -> None:
    if not connection.features.magnetar_extensions:
        raise Refused(f"the broker does not support {what}: they require a Magnetar broker", url=connection.url)


def _command(asking: PlanRequest, plan: Plan | None, request_id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.PLAN)
    body = command.plan
    body.request_id = request_id
    body.topic = asking.topic
    if asking.places:
        body.places.CopyFrom(columns(asking.places))
    if isinstance(asking.start, int):
        body.start = pb.FROM_TIME
        body.publish_time = asking.start
    else:
        body.start = _WORDS[asking.start]
    if asking.messages_max:
        body.messages_max = asking.messages_max
    if asking.bytes_max:
        body.bytes_max = asking.bytes_max
    if asking.targets:
        body.targets.CopyFrom(columns(asking.targets))
    if asking.publish_times:
        body.publish_times = True
    if asking.subscription:
        body.subscription = asking.subscription
    if plan is not None:
        body.known_incarnation = plan.incarnation
        body.known_epoch = plan.epoch
    return command
