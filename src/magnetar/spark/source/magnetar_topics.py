"""Requests to Magnetar brokers about a scalable topic: one request returns for each segment the readable range, its
messages, bytes and publish times, and the deleted parts.

A hold with the name of the query's subscription protects messages that the query has not read or may have to read
again. Without a subscription, no message is kept for the query. One run of a query uses a subscription at a time
(`claim`). Trusts the broker's counts.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import NotReady, SubscriptionNotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_CLAIM_ASK_S, SPARK_CLAIM_S, SPARK_HOLD_ALIVE_S
from magnetar.base.names import topic_name
from magnetar.client.batch_read.hold import Hold, HoldRequest, hold
from magnetar.client.batch_read.plan import Plan
from magnetar.client.connection.backoff import persist
from magnetar.client.read_client import ReadClient
from magnetar.layout.readable_range import DONE, Places, ReadPosition
from magnetar.layout.readable_range import ReadableRange as Told
from magnetar.layout.routing import DEFAULT
from magnetar.layout.segment import FIRST
from magnetar.spark.process import is_alive
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import AtTime, Extreme
from magnetar.spark.source.planner import Balance, Rules
from magnetar.spark.source.readable_range import ReadableRange
from magnetar.spark.source.subscription_claim import Claim, taken
from magnetar.spark.source.topic_info import TopicSnapshot
from magnetar.spark.source.topic_layout import TopicLayout, shapes


class MagnetarTopicInfo:
    def __init__(self, client: ReadClient, topic: str, *, subscription: str = "", claim: Claim | None = None) -> None:
        self._client = client
        self._name = topic_name(topic)
        self._subscription = subscription
        self._claim = claim
        self._shapes = shapes(client, topic)
        self._held = ""
        self._held_at = 0.0

    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        return await self._shapes.now(epoch)

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        async def ask() -> Plan:
            plan = await self._client.plan(
                self._name.canonical,
                start.places,
                messages_max=limits.messages or 0,
                bytes_max=limits.bytes or 0,
                publish_times=rules.balance is Balance.TIME,
                subscription=self._subscription,
            )
            if plan.epoch < start.epoch:
                raise NotReady("the layout is older than the offset", layout=plan.epoch, offset=start.epoch)
            return plan

        plan = await persist(self._client.runtime, self._client.operation_timeout_s, ask, what="plan")
        return TopicSnapshot(self._shape(plan), {id: _stretch(one) for id, one in plan.stretches.items()})

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        begin: int | str = where.ms if isinstance(where, AtTime) else where.name.lower()
        plan = await self._client.plan(
            self._name.canonical,
            start=begin,  # type: ignore[arg-type]
            messages_max=1,
            subscription=self._subscription,
        )
        places: dict[SegmentId, ReadPosition] = {}
        for segment in plan.layout.segments:
            readable = plan.stretches.get(segment.id)
            if readable is not None:
                over = readable.sealed and not readable.marks and not segment.is_active
                places[segment.id] = DONE if over else readable.start
        return self._shape(plan), places

    async def lost(self, places: Places) -> dict[SegmentId, ReadPosition]:
        if not places:
            return {}
        plan = await self._client.plan(self._name.canonical, places, messages_max=1, subscription=self._subscription)
        ranges = {id: plan.stretches.get(id) for id in places}
        return {id: one.start for id, one in ranges.items() if one is not None and one.lost}

    async def deleted(self) -> bool:
        plan = await self._client.plan(self._name.canonical, start="start", messages_max=1)
        return SegmentId(0) not in plan.layout or any(one.lost for one in plan.stretches.values())

    async def hold(self, at: SourceOffset) -> None:
        """A new query does not move an existing hold: batch 0 of an earlier run may have to be read again from its
        start. An idle query renews its hold regularly.
        """
        now = self._client.runtime.monotonic()
        if not self._subscription or (at.text == self._held and now - self._held_at < SPARK_HOLD_ALIVE_S):
            return
        if not self._held_at:
            await self._ask()
        if at.initial and not (await self._hold(None, at.life)).moved:
            return
        await self._hold(at.places, at.life)  # if the hold has expired, the next survey reports the loss
        self._held, self._held_at = at.text, now

    async def _hold(self, places: Places | None, life: int) -> Hold:
        owner = "Spark" if self._claim is None else self._claim.owner
        request = HoldRequest(
            self._name.canonical, self._subscription, places, owner=owner, incarnation=life if places else 0
        )
        answer = await hold(self._client.lookup, request, self._client.operation_timeout_s)
        if self._claim is not None:
            self._claim.held(self._name.canonical, self._subscription, answer.owner)
        return answer

    async def _ask(self) -> None:
        """Checks whether another run uses the hold. That run may just be ending: a query's process outlives the query
        for a moment.
        """
        if self._claim is None:
            return
        request = HoldRequest(self._name.canonical, self._subscription, begins=True)
        until = self._client.runtime.monotonic() + SPARK_CLAIM_S
        while True:
            try:
                answer = await hold(self._client.lookup, request, self._client.operation_timeout_s)
            except SubscriptionNotFound:
                return
            other = self._claim.elsewhere(answer.owner)
            if other is None or not other.here or not is_alive(other.process, other.ticks):
                return
            if self._client.runtime.monotonic() >= until:
                raise taken(self._name.canonical, self._subscription, other)
            await asyncio.sleep(SPARK_CLAIM_ASK_S)

    async def close(self) -> None:
        await self._shapes.close()

    def _shape(self, plan: Plan) -> TopicLayout:
        topics = {one.id: one.topic(self._name).canonical for one in plan.layout.segments}
        return TopicLayout(self._name.canonical, plan.layout, topics, plan.routing or DEFAULT, plan.incarnation)


def _stretch(encoded: Told) -> ReadableRange:
    return ReadableRange(encoded.start, encoded.marks, encoded.sealed, encoded.lost)
