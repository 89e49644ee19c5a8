"""The facts of a scalable topic on our own brokers: one question says how far every segment can be read, how many
messages and bytes that is, when they were published and what is gone.

A hold named by the query's subscription keeps what it has not read, and what it may have to read again, from being
trimmed; without a subscription nothing is kept. Trusts the broker's counts.
"""

from __future__ import annotations

from magnetar.base.errors import NotReady
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_HOLD_ALIVE_S
from magnetar.base.names import topic_name
from magnetar.client.backoff import persist
from magnetar.client.holding import Hold, Holding, hold
from magnetar.client.planning import Plan
from magnetar.client.reads import Reads
from magnetar.layout.routing import DEFAULT
from magnetar.layout.segment import FIRST
from magnetar.layout.stretch import DONE, Place, Places
from magnetar.layout.stretch import Stretch as Told
from magnetar.spark.facts import Survey
from magnetar.spark.frontier import Frontier
from magnetar.spark.options import AtTime, Extreme
from magnetar.spark.planner import Balance, Limits, Rules
from magnetar.spark.shape import Shape, shapes
from magnetar.spark.stretch import Stretch


class MeasuredFacts:
    def __init__(self, client: Reads, topic: str, *, subscription: str = "") -> None:
        self._client = client
        self._name = topic_name(topic)
        self._subscription = subscription
        self._shapes = shapes(client, topic)
        self._held = ""
        self._held_at = 0.0

    async def shape(self, epoch: Epoch = FIRST) -> Shape:
        return await self._shapes.now(epoch)

    async def survey(self, start: Frontier, limits: Limits, rules: Rules) -> Survey:
        async def ask() -> Plan:
            found = await self._client.plan(
                self._name.canonical,
                start.places,
                messages_max=limits.messages or 0,
                bytes_max=limits.bytes or 0,
                publish_times=rules.balance is Balance.TIME,
                subscription=self._subscription,
            )
            if found.epoch < start.epoch:
                raise NotReady("the layout is older than the offset", layout=found.epoch, offset=start.epoch)
            return found

        found = await persist(self._client.runtime, self._client.operation_timeout_s, ask, what="plan")
        return Survey(self._shape(found), {id: _stretch(one) for id, one in found.stretches.items()})

    async def find(self, where: Extreme | AtTime) -> tuple[Shape, Places]:
        begin: int | str = where.ms if isinstance(where, AtTime) else where.name.lower()
        found = await self._client.plan(
            self._name.canonical,
            start=begin,  # type: ignore[arg-type]
            messages_max=1,
            subscription=self._subscription,
        )
        places: dict[SegmentId, Place] = {}
        for one in found.layout.segments:
            told = found.stretches.get(one.id)
            if told is not None:
                over = told.sealed and not told.marks and not one.is_active
                places[one.id] = DONE if over else told.start
        return self._shape(found), places

    async def lost(self, places: Places) -> dict[SegmentId, Place]:
        if not places:
            return {}
        found = await self._client.plan(self._name.canonical, places, messages_max=1, subscription=self._subscription)
        told = {id: found.stretches.get(id) for id in places}
        return {id: one.start for id, one in told.items() if one is not None and one.lost}

    async def hold(self, at: Frontier) -> None:
        """One that is there already is not moved by a query that begins: batch 0 of an earlier run may have to be read
        again, from where that one began. An idle query says now and then that it is alive.
        """
        now = self._client.runtime.monotonic()
        if not self._subscription or (at.text == self._held and now - self._held_at < SPARK_HOLD_ALIVE_S):
            return
        if at.initial and not (await self._hold(None, at.life)).moved:
            return
        await self._hold(at.places, at.life)  # had it expired, the next survey tells what is gone
        self._held, self._held_at = at.text, now

    async def _hold(self, places: Places | None, life: int) -> Hold:
        asked = Holding(
            self._name.canonical, self._subscription, places, owner="Spark", incarnation=life if places else 0
        )
        return await hold(self._client.lookup, asked, self._client.operation_timeout_s)

    async def close(self) -> None:
        await self._shapes.close()

    def _shape(self, found: Plan) -> Shape:
        topics = {one.id: one.topic(self._name).canonical for one in found.layout.segments}
        return Shape(self._name.canonical, found.layout, topics, found.routing or DEFAULT, found.incarnation)


def _stretch(told: Told) -> Stretch:
    return Stretch(told.start, told.marks, told.sealed, told.lost)
