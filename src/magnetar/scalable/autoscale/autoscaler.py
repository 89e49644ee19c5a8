"""Evaluates the topics of this broker periodically, and carries out the actions.

The leader of a topic evaluates it. A topic without a leader is evaluated by the broker that minds it, which becomes the
leader if there is something to do. A topic rests while none of its segments is in memory and its evaluation found
nothing. A new stream consumer, a changed policy and the end of a cool-down cause an evaluation before the next regular
one. One evaluation runs at a time; if the store or an owner does not answer, the topic is evaluated again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Corrupt, MagnetarError, Misuse, Moved
from magnetar.base.ids import SegmentId
from magnetar.base.limits import AUTOSCALE_SOON_S, CALLS_AT_ONCE_MAX, LOAD_INTERVAL_S_MIN
from magnetar.base.names import TopicName
from magnetar.layout.autoscale.cold_times import cold_times
from magnetar.layout.autoscale.decision import Evaluation
from magnetar.layout.autoscale.evaluator import Demand, Situation, evaluate, wanted_consumers
from magnetar.layout.autoscale.load import SegmentLoad
from magnetar.layout.autoscale.policy import AutoScalePolicy, overlaid
from magnetar.layout.autoscale.scale_out import scale_out
from magnetar.layout.lineage import merge_depths
from magnetar.layout.segment import Segment
from magnetar.observe.log import get
from magnetar.scalable.autoscale.decision_log import DecisionLog
from magnetar.scalable.autoscale.settings import broker_policy, last_reshapes
from magnetar.scalable.autoscale.stored_policy import namespace_override, topic_override
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.record.record import Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type

if TYPE_CHECKING:
    from magnetar.cluster.calls.topic_calls import Peers
    from magnetar.cluster.namespaces import Namespaces
    from magnetar.cluster.ownership import Ownership
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Owner, Runtime
    from magnetar.scalable.leader.topic_walk import TopicWalk
    from magnetar.scalable.service import ScalableTopics

log = get("autoscale")


class LoadedTopic(Protocol):
    @property
    def name(self) -> TopicName: ...


class LoadedTopics(Protocol):
    """The topics in memory, by name."""

    @property
    def loaded(self) -> Mapping[str, LoadedTopic]: ...


class AutoScalerNode(Protocol):
    """What AutoScaler uses of the node."""

    runtime: Runtime
    settings: Settings
    owner: Owner
    scalable: ScalableTopics
    namespaces: Namespaces
    peers: Peers

    @property
    def ownership(self) -> Ownership: ...

    @property
    def topics(self) -> LoadedTopics: ...


class AutoScaler:
    def __init__(self, node: AutoScalerNode) -> None:
        self._node = node
        self._client = SegmentClient(node.peers)
        self.log = DecisionLog()
        self._soon: dict[TopicName, float] = {}  # when a topic is evaluated before the next regular time
        self._woken = asyncio.Event()
        self._next_at = 0.0
        self._one = asyncio.Lock()

    def start(self) -> None:
        node = self._node
        if node.scalable.enabled:
            self._next_at = node.runtime.monotonic() + self._interval_s
            node.scalable.consumer_registered = self.wake
            node.runtime.spawn(node.owner, self._run())

    @property
    def _interval_s(self) -> float:
        return self._node.settings.number("scalableTopicAutoScaleIntervalSeconds")

    @cached_property
    def _walk(self) -> TopicWalk:
        return self._node.scalable.walk()

    def wake(self, name: TopicName, in_s: float = AUTOSCALE_SOON_S) -> None:
        """The topic is evaluated after this time, if its leader is here."""
        at = self._node.runtime.monotonic() + in_s
        if at < self._next_at:
            self._soon[name] = min(at, self._soon.get(name, at))
            self._woken.set()

    async def _run(self) -> None:
        node = self._node
        while True:
            now = node.runtime.monotonic()
            until = min([self._next_at, *self._soon.values()])
            self._woken.clear()
            try:
                async with asyncio.timeout(max(0.0, until - now)):
                    await self._woken.wait()
            except TimeoutError:
                pass
            now = node.runtime.monotonic()
            due = [name for name, at in self._soon.items() if at <= now]
            for name in due:
                del self._soon[name]
                await self._visit(name, regular=False)
            if now >= self._next_at:
                self._next_at = now + self._interval_s
                await self.round()

    async def round(self) -> None:
        """Evaluates all topics that this broker leads, or minds while no broker leads them."""
        node = self._node
        if not node.ownership.steady or not node.scalable.enabled:
            return
        led = {name.canonical: name for name in node.scalable.figures.led}
        for topic in list(node.topics.loaded.values()):
            if topic.name.is_segment:
                self._walk.wake(topic.name.parent)  # it may have load
        try:
            async for name, record, _ in self._walk.changed():
                if not record.is_live or record.is_plain:
                    self._walk.rest(name)
                    continue
                if (led.pop(name.canonical, None) or await self._is_free(name)) and not await self._visit(name):
                    self._walk.rest(name)
        except MagnetarError as error:
            log.warning("autoscale_round_failed", error=str(error))
        for name in led.values():  # another broker minds them
            await self._visit(name)

    async def _is_free(self, name: TopicName) -> bool:
        leader = await self._node.scalable.leader(name)
        return leader is None or leader.id == self._node.ownership.me.id

    async def _visit(self, name: TopicName, *, regular: bool = True) -> bool:
        """Returns whether the topic has load, or something to wait for."""
        try:
            if not regular and not await self._is_free(name):
                return False
            return await self.evaluate(name)
        except Moved:
            return False  # another broker became the leader: it evaluates the topic
        except MagnetarError as error:
            log.warning("autoscale_failed", topic=str(name), error=str(error))
            return True

    # One topic

    async def evaluate(self, name: TopicName) -> bool:
        """As `_visit`; errors are the caller's."""
        async with self._one:
            record = await self._node.scalable.read(name)
            if record is None or record.is_plain:
                self.log.forget(name)
                return False
            policy, _ = await self.policy(name, record)
            situation = await self._situation(name, record, policy)
            evaluation = evaluate(situation)
            scaling = self.log.of(name)
            scaling.keep(evaluation, situation.now_ms)
            self._expect(name, evaluation, situation.now_ms)
            if evaluation.actions and record.intent is None:
                await self._act(name, evaluation, policy.at(situation.now_ms))
            waits = any(one.eligibleMs for one in evaluation.decisions)
            return waits or bool(evaluation.actions) or any(load.measured_s for load in scaling.loads.values())

    async def policy(self, name: TopicName, record: Record) -> tuple[AutoScalePolicy, list[str]]:
        """The effective policy, with the layers that set something, the strongest first. A stored override that this
        version cannot read switches the automatic scaling of the topic off."""
        layers = ["broker"]
        policies = await self._node.namespaces.policies(name.namespace)
        try:
            namespace, topic = namespace_override(policies), topic_override(record)
        except Corrupt as error:
            log.warning("autoscale_policy_rejected", topic=str(name), error=str(error))
            return AutoScalePolicy(enabled=False), layers
        for layer, override in (("namespace", namespace), ("topic", topic)):
            if override is not None:
                layers.insert(0, layer)
        return overlaid(broker_policy(self._node.settings), namespace, topic), layers

    async def _situation(self, name: TopicName, record: Record, policy: AutoScalePolicy) -> Situation:
        stored = await self._node.scalable.records.subscriptions(name, record.incarnation)
        live = [one for one, _ in stored if one.standing is SubscriptionState.LIVE]
        loads = await self.loads(name, record)
        now_ms = self._node.runtime.wall()
        scaling = self.log.of(name)
        scaling.loads = loads
        scaling.depth = max(merge_depths(record.layout).values(), default=0)
        scaling.cold_since_ms = cold_times(scaling.cold_since_ms, record.layout, loads, policy, now_ms)
        scaling.wanted = {one.name: wanted_consumers(record.layout, loads, one.name) for one in live}
        return Situation(
            layout=record.layout,
            policy=policy,
            now_ms=now_ms,
            loads=loads,
            cold_since_ms=scaling.cold_since_ms,
            demands=[_demand(one) for one in live if one.members],
            last=last_reshapes(record),
            routing=record.routing,
        )

    async def loads(self, name: TopicName, record: Record) -> dict[SegmentId, SegmentLoad]:
        """The loads of the segments that take messages or may have a backlog. An owner that does not answer leaves its
        segments out: they are neither split nor merged."""
        segments = [one for one in record.layout.segments if one.is_active or not _is_past(record, one)]
        loads: dict[SegmentId, SegmentLoad] = {}
        for start in range(0, len(segments), CALLS_AT_ONCE_MAX):
            some = segments[start : start + CALLS_AT_ONCE_MAX]
            answers = await asyncio.gather(*(self._load(name, one) for one in some))
            loads |= {one.id: load for one, load in zip(some, answers, strict=True) if load is not None}
        return loads

    async def _load(self, name: TopicName, segment: Segment) -> SegmentLoad | None:
        interval_s = self._node.settings.number("scalableTopicLoadReportIntervalSeconds")
        try:
            return await self._client.load(segment.topic(name), max(LOAD_INTERVAL_S_MIN, interval_s))
        except MagnetarError as error:
            log.info("load_request_failed", topic=str(name), segment=segment.id, error=str(error))
            return None

    async def _act(self, name: TopicName, evaluation: Evaluation, policy: AutoScalePolicy) -> None:
        bounds = policy.min_segments, policy.max_segments
        for action in evaluation.actions:
            try:
                operation = await self._node.scalable.scale(name, action, bounds=bounds)
            except Misuse as error:  # the layout or the bounds changed since: the next evaluation sees it
                log.info("autoscale_refused", topic=str(name), kind=action.kind, error=str(error))
                return
            log.info("autoscale_completed", topic=str(name), op=operation.op, kind=action.kind, reason=action.reason)

    def _expect(self, name: TopicName, evaluation: Evaluation, now_ms: int) -> None:
        """Evaluates the topic when a cool-down ends."""
        eligible_ms = [one.eligibleMs for one in evaluation.decisions if one.eligibleMs > now_ms]
        if eligible_ms:
            self.wake(name, (min(eligible_ms) - now_ms + 1) / 1000)

    async def look(self, name: TopicName, record: Record) -> tuple[Situation, Evaluation]:
        """An evaluation that changes nothing and is not remembered."""
        policy, _ = await self.policy(name, record)
        situation = await self._situation(name, record, policy)
        return situation, evaluate(situation)

    async def scale_out(self, name: TopicName, segments: int) -> Record:
        """Splits until the topic has this number of active segments, whether or not automatic scaling is enabled."""
        scalable = self._node.scalable
        record = await scalable.records.change(name, lambda one: one)
        for action in scale_out(record.layout, await self.loads(name, record), segments):
            await scalable.scale(name, action, bounds=(1, segments), trigger="manual")
        return await scalable.records.change(name, lambda one: one)


def _demand(subscription: Subscription) -> Demand:
    return Demand(subscription.name, len(subscription.members), shares=subscription.type is Type.STREAM)


def _is_past(record: Record, segment: Segment) -> bool:
    """Sealed for so long that only its drain matters: its load is not requested."""
    return not segment.is_active and segment.sealed_epoch + len(record.layout.active) < record.layout.shown_epoch
