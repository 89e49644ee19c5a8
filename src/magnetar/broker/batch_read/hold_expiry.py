"""The expiry of holds: announced in the record, the log and the metrics in advance, and recorded when it happens.

One broker checks the holds of a topic periodically, as `BundleOwnership.minds` says, and reports them. The broker that
moved a hold checks it too when its end is near. `scalable/machines/hold.py` decides, and a compare-and-set records the
decision, so each one happens once. The time since an announcement is counted from this broker's first sight of it, by a
monotonic clock. If the store does not respond, the check ends, and the next one runs as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import BadVersion, MagnetarError
from magnetar.base.limits import HOLD_LATE_S, HOLD_LOOK_S, HOLD_SOON_S
from magnetar.base.names import TopicName
from magnetar.broker.metrics.scalable_topics import Layouts, layout_sample
from magnetar.observe.log import get
from magnetar.observe.metrics import Sample
from magnetar.scalable.leader.topic_walk import TopicWalk
from magnetar.scalable.machines import hold
from magnetar.scalable.machines.hold import Due, StoredHold
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState

if TYPE_CHECKING:
    from magnetar.cluster.ownership import Ownership
    from magnetar.layout.lag import Lag
    from magnetar.observe.metrics import Metrics
    from magnetar.runtime.runtime import Owner, Runtime
    from magnetar.scalable.service import ScalableTopics

log = get("holds")

Seen = dict[tuple[str, str, int], float]  # by topic, name and when it was announced: since when it was seen so


class HoldExpiryNode(Protocol):
    """What HoldExpirer uses of the node."""

    runtime: Runtime
    registry: Metrics
    scalable: ScalableTopics
    owner: Owner

    @property
    def ownership(self) -> Ownership: ...


class HoldExpirer:
    """`lag` returns the lag of a hold's reader. The topics that this broker minds are those that it reports."""

    def __init__(
        self,
        node: HoldExpiryNode,
        lag: Callable[[TopicName, Record, StoredHold], Awaitable[Lag]],
    ) -> None:
        self._node = node
        self.layouts = Layouts()
        self._lag = lag
        self._next_at = 0.0
        self._soon: dict[TopicName, float] = {}  # when a topic is looked at before all are
        self._timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._announced: Seen = {}
        self._shown: dict[tuple[str, str], tuple[StoredHold, Lag]] = {}
        self._warnings = node.registry.counter("magnetar_hold_warnings")
        self._expirations = node.registry.counter("magnetar_hold_expirations")
        node.registry.provide(self._samples)

    async def round(self) -> None:
        """Runs the checks that are due."""
        node = self._node
        async with self._lock:
            now = node.runtime.monotonic()
            soon = [topic for topic, at in self._soon.items() if at <= now]
            try:
                if not node.ownership.steady or not node.scalable.enabled:
                    pass  # what others write now may be more than this broker knows
                elif now >= self._next_at:
                    self._next_at = now + HOLD_LOOK_S
                    await self.look()
                else:
                    await self._look_at(soon)
            except MagnetarError as error:
                log.warning("hold_check_failed", error=str(error))
            if self._soon:
                self._set_timer()  # again: it may have rung a little early, or for nothing

    @cached_property
    def _walk(self) -> TopicWalk:
        return self._node.scalable.walk()

    async def look(self) -> None:
        """Checks all holds of the topics that this broker minds."""
        seen, shown = self._announced, self._shown
        self._announced, self._shown = {}, {}
        self._soon.clear()
        try:
            async for topic, record, _ in self._walk.changed():
                if not await self._visit(topic, record, seen):
                    self._walk.rest(topic)
            self.layouts.retain({topic.canonical async for topic in self._walk.names()})
        except MagnetarError:
            self._announced, self._shown = seen | self._announced, shown | self._shown
            raise

    def expect(self, topic: TopicName, held: StoredHold, announced_for_s: float = 0.0) -> None:
        """Schedules a check of this topic if something is due before the next check of all holds."""
        in_s = max(HOLD_SOON_S, hold.due_in_s(held, self._node.runtime.wall(), announced_for_s))
        if in_s < HOLD_LOOK_S:
            at = self._node.runtime.monotonic() + in_s
            self._soon[topic] = min(at, self._soon.get(topic, at))
            self._set_timer()

    async def _look_at(self, names: list[TopicName]) -> None:
        for name in names:
            self._soon.pop(name, None)
            record, _ = await self._node.scalable.records.fresh(name)
            if record is not None:
                await self._visit(name, record, self._announced, reports=await self._walk.minds(name))

    async def _visit(self, topic: TopicName, record: Record, seen: Seen, *, reports: bool = True) -> bool:
        """Returns whether the topic has holds."""
        runtime = self._node.runtime
        stored = await self._node.scalable.records.subscriptions(topic, record.incarnation) if record.is_live else []
        if reports and record.is_live and not record.is_plain:
            self.layouts.keep(layout_sample(topic, record, [one for one, _ in stored]))
        else:
            self.layouts.forget(topic)
        holds = False
        for subscription, version in stored:
            if subscription.hold is None or subscription.standing is not SubscriptionState.LIVE:
                continue
            holds = True
            since = seen.get((topic.canonical, subscription.name, subscription.hold.warned_ms), runtime.monotonic())
            try:
                held = await self._settle(topic, subscription, version, runtime.monotonic() - since)
                if held is None:
                    continue
                if held.warned_ms:
                    self._announced[topic.canonical, subscription.name, held.warned_ms] = since
                self.expect(topic, held, runtime.monotonic() - since)
                if reports:
                    self._shown[topic.canonical, subscription.name] = held, await self._lag(topic, record, held)
            except BadVersion:
                pass  # its reader came, or another broker was faster
            except MagnetarError as error:
                log.warning("hold_check_failed", topic=str(topic), hold=subscription.name, error=str(error))
        return holds

    async def _settle(
        self, topic: TopicName, subscription: Subscription, version: int, since_s: float
    ) -> StoredHold | None:
        """Writes the due changes and returns the resulting hold."""
        assert subscription.hold is not None
        node, held = self._node, subscription.hold
        now_ms = node.runtime.wall()
        facts = {"topic": str(topic), "hold": subscription.name, "owner": held.owner, "until_ms": held.until_ms}
        match hold.due(held, now_ms, since_s):
            case Due.WARN:
                held = hold.warned(held, now_ms)
                await node.scalable.records.write_subscription(topic, replace(subscription, hold=held), version)
                log.warning("hold_expiry_approached", **facts, do="start its reader, or unread messages may be trimmed")
                node.runtime.mark("hold.warned", topic=str(topic), hold=subscription.name)
                self._warnings.value += 1
            case Due.EXPIRE:
                held = hold.expired(held, now_ms)
                await node.scalable.records.write_subscription(topic, replace(subscription, hold=held), version)
                log.error("hold_expired", **facts, do="restart its reader; unread messages are no longer kept")
                node.runtime.mark("hold.expired", topic=str(topic), hold=subscription.name)
                self._expirations.value += 1
            case Due.REMOVE:
                await node.scalable.unsubscribe(topic, subscription.name)
                log.warning("hold_removed", **facts)
                return None
            case Due.NOTHING:
                pass
        return held

    def _set_timer(self) -> None:
        """Sets a timer for the earliest due topic: housekeeping is too rare for a hold of some seconds."""
        loop = asyncio.get_running_loop()
        in_s = max(HOLD_SOON_S, min(self._soon.values()) - self._node.runtime.monotonic()) + HOLD_LATE_S
        if self._timer is None or self._timer.when() > loop.time() + in_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_later(in_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if not self._node.owner.closed:
            self._node.runtime.spawn(self._node.owner, self.round())

    def _samples(self) -> Iterator[Sample]:
        now_ms = self._node.runtime.wall()
        for (topic, name), (held, lag) in self._shown.items():
            labels = (("topic", topic), ("hold", name), ("owner", held.owner))
            yield "magnetar_hold_lag_messages", labels, lag.messages
            yield "magnetar_hold_lag_bytes", labels, lag.bytes
            yield "magnetar_hold_lag_seconds", labels, lag.at(now_ms).age_s
            yield "magnetar_hold_expires_seconds", labels, max(0, held.until_ms - now_ms) // 1000
            yield "magnetar_hold_warned", labels, int(bool(held.warned_ms))
            yield "magnetar_hold_expired", labels, int(bool(held.expired_ms))
