"""Answers PLAN: reads the layout, finds the owners of the segments that a reader may get next, and measures them.

This broker measures the segments that it serves; one call per broker measures the others. Segments that are not in
memory are loaded. `scalable/machines/read_plan.py` decides which segments are measured and when enough are known.
Errors reach the caller: NotReady if the ownership moves during the call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import TopicNotFound
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CALLS_AT_ONCE_MAX, RECORDS_DECODED_MAX
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.peers.destination import DestinationNode, destination
from magnetar.cluster.calls.topic_calls import Measure, MeasuredAll
from magnetar.layout.layout import Layout
from magnetar.layout.plain_layout import synthetic
from magnetar.layout.readable_range import ReadableRange
from magnetar.scalable.machines.read_plan import MeasureRequest, agreed, asked, enough, missing, rounds
from magnetar.scalable.record.record import Record
from magnetar.topic.measure import RangeRequest
from magnetar.topic.topic import Topic
from magnetar.wire.scalable.plan_ranges import EncodedRange, encode_range

if TYPE_CHECKING:
    from magnetar.broker.segments.segments import Segments
    from magnetar.broker.topics.topics import Topics
    from magnetar.cluster.calls.topic_calls import Peers


class ReadPlanNode(DestinationNode, Protocol):
    """What ReadPlanner uses of the node."""

    segments: Segments
    peers: Peers
    topics: Topics


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """`told` maps each measured segment to its range."""

    record: Record
    told: dict[SegmentId, EncodedRange]

    @property
    def stretches(self) -> dict[SegmentId, ReadableRange]:
        return {id: one.stretch for id, one in self.told.items()}


@dataclass(frozen=True, slots=True)
class _CachedTopic:
    """Data of a frequently requested topic that is valid as long as its layout."""

    layout: Layout
    topics: dict[SegmentId, TopicName]


class ReadPlanner:
    def __init__(self, node: ReadPlanNode) -> None:
        self._node = node
        self._kept: dict[str, _CachedTopic] = {}  # the one used last comes last

    async def plan(self, name: TopicName, question: MeasureRequest) -> ReadPlan:
        """TopicNotFound: the topic does not exist."""
        record = await self.record(name)
        layout = record.layout
        ranges: dict[SegmentId, EncodedRange] = {}
        topics = self._known(name, layout).topics
        for ids in rounds(layout, question):
            questions = list(zip([topics[id] for id in ids], asked(question, ids), strict=True))
            for id, answer in zip(ids, await self._told(questions), strict=True):
                if answer is None:
                    answer = encode_range(missing(layout.segment(id), question))
                elif answer.sealed and layout.segment(id).is_active:
                    answer = encode_range(agreed(answer.stretch))
                ranges[id] = answer
            if enough(question, ranges):
                break
        return ReadPlan(record, ranges)

    def _known(self, name: TopicName, layout: Layout) -> _CachedTopic:
        key = name.canonical
        kept = self._kept.pop(key, None)
        if kept is None or kept.layout is not layout:
            kept = _CachedTopic(layout, {one.id: one.topic(name) for one in layout.segments})
            if len(self._kept) >= RECORDS_DECODED_MAX:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        return kept

    async def measured(self, request: Measure) -> MeasuredAll:
        """Measures at the request of another broker."""
        pairs = zip(request.topics, request.asked, strict=True)
        ranges = await self._here([(topic_name(topic), one) for topic, one in pairs])
        return MeasuredAll(tuple(None if said is None else said.stretch for said in ranges))

    async def record(self, name: TopicName) -> Record:
        """The record of a scalable or migrated topic; for a plain topic the layout that represents it.
        TopicNotFound."""
        record = await self._node.scalable.read(name.scalable)
        if name.domain is Domain.PERSISTENT and (record is None or record.is_plain):
            topics = await self._node.segments.plains.topics(name, create=False)
            if record is not None:
                return record.grown(topics)
            return Record(synthetic(topics, epoch=len(topics) if topic_name(topics[0]).is_partition else 0), 0)
        if record is None or record.is_plain:
            raise TopicNotFound(f"Scalable topic not found: {name}")
        return record

    async def measure(self, questions: list[tuple[TopicName, RangeRequest]]) -> list[ReadableRange | None]:
        """The range of each topic, measured by its owner. None: the topic does not exist."""
        return [None if said is None else said.stretch for said in await self._told(questions)]

    async def _told(self, questions: list[tuple[TopicName, RangeRequest]]) -> list[EncodedRange | None]:
        node = self._node
        if not node.served.cluster:
            return await self._here(questions)
        places: dict[str, list[int]] = {}
        for index, (topic, _) in enumerate(questions):
            places.setdefault((await destination(node, topic)).id, []).append(index)
        ranges: list[EncodedRange | None] = [None] * len(questions)
        parts = list(places.items())
        answers = await asyncio.gather(
            *(self._at(broker, [questions[index] for index in part]) for broker, part in parts)
        )
        for (_, part), answer in zip(parts, answers, strict=True):
            for index, encoded in zip(part, answer, strict=True):
                ranges[index] = encoded
        return ranges

    async def _at(self, broker: str, questions: list[tuple[TopicName, RangeRequest]]) -> list[EncodedRange | None]:
        if broker == self._node.ownership.me.id:
            return await self._here(questions)
        request = Measure(
            op="plan", topics=tuple(str(topic) for topic, _ in questions), asked=tuple(one for _, one in questions)
        )
        ranges = (await self._node.peers.measure(questions[0][0], request)).stretches
        return [None if said is None else encode_range(said) for said in ranges]

    async def _here(self, questions: list[tuple[TopicName, RangeRequest]]) -> list[EncodedRange | None]:
        """Measures loaded topics first; loads the others, a bounded number at a time."""
        ranges: list[EncodedRange | None] = [None] * len(questions)
        cold: list[int] = []
        loaded = self._node.topics.loaded
        for index, (name, question) in enumerate(questions):
            topic = loaded.get(name.canonical)
            if isinstance(topic, Topic) and not topic.closing:
                answer = topic.meter.at_once(question)
                ranges[index] = answer if answer is not None else await topic.meter.measure(question)
            else:
                cold.append(index)
        for at in range(0, len(cold), CALLS_AT_ONCE_MAX):
            part = cold[at : at + CALLS_AT_ONCE_MAX]
            for index, answer in zip(
                part, await asyncio.gather(*(self._load(*questions[i]) for i in part)), strict=True
            ):
                ranges[index] = answer
        return ranges

    async def _load(self, name: TopicName, question: RangeRequest) -> EncodedRange | None:
        try:
            topic = await self._node.topics.get(name, create=False)
        except TopicNotFound:
            return None
        assert isinstance(topic, Topic)
        return await topic.meter.measure(question)
