"""One exclusive producer for a whole scalable topic with any number of segments, through every reshape (H-E11).

A segment alone cannot decide who is exclusive: after a split, different producers could attach first to each child. So
the topic's record contains the name of the holder, changed by compare-and-set, and an owner admits no other producer
while the holder is attached to any segment. The holder does not remove its name: the next producer asks the owners
whether the holder is still attached. A holder that moves from a sealed segment to its children counts as attached. The
check is repeated after a producer was admitted, because check and admission are not one step.
`topic/producers/access.py` still decides for the single segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Fenced, MagnetarError, ProducerBusy, TopicNotFound
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN, EXCLUSIVE_RETURN_S
from magnetar.base.names import TopicName
from magnetar.cluster.calls.topic_calls import AskProducers, Attached
from magnetar.scalable.record.record import Record
from magnetar.topic.producers.access import Mode
from magnetar.topic.producers.producer import base_name
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.topics.topics import Topics
    from magnetar.cluster.calls.topic_calls import Peers
    from magnetar.runtime.runtime import Runtime
    from magnetar.scalable.service import ScalableTopics


class ExclusiveNode(Protocol):
    """What ExclusiveProducers uses of the node."""

    runtime: Runtime
    scalable: ScalableTopics
    peers: Peers
    topics: Topics


class ExclusiveProducers:
    def __init__(self, node: ExclusiveNode) -> None:
        self._node = node

    # Admission of producers

    async def admit(self, name: TopicName, record: Record, base: str, mode: Mode, queued: Callable[[], None]) -> None:
        """Called before the producer attaches to a segment. `queued` is called if it has to wait; this method waits."""
        if mode is Mode.SHARED:
            await self._admit_shared(name, record, base)
        elif record.exclusive != base:
            await self._claim(name, record, base, mode, queued)

    async def check(self, name: TopicName, base: str, mode: Mode) -> None:
        """Called after the producer attached: another one may have taken the topic since `admit`."""
        holder = (await self._read(name)).exclusive
        if holder == base or (mode is Mode.SHARED and not holder):
            return
        if mode is Mode.SHARED:
            raise _busy(holder)
        raise Fenced(f"exclusive access was lost to {holder or 'shared producers'}", topic=str(name))

    async def _admit_shared(self, name: TopicName, record: Record, base: str) -> None:
        holder = record.exclusive
        if not holder:
            return
        if await self._holds(name, record, holder, returning=holder != base):
            raise _busy(holder)
        await self._node.scalable.hold(name, before=holder, after="")
        if holder in (await self._ask(name, record, "")).exclusive:  # it came back between the question and this
            await self._node.scalable.hold(name, before="", after=holder)
            raise _busy(holder)

    async def _claim(self, name: TopicName, record: Record, base: str, mode: Mode, queued: Callable[[], None]) -> None:
        wait_s, logged = CALL_RETRY_S_MIN, False
        while record.exclusive != base:
            refusal = None if mode is Mode.EXCLUSIVE_WITH_FENCING else await self._refusal(name, record, base)
            if refusal is None:
                record = await self._node.scalable.hold(name, before=record.exclusive, after=base)
                if record.exclusive == base:
                    refusal = await self._taken(name, record, base, mode)
            if refusal is None:
                continue
            if mode is not Mode.WAIT_FOR_EXCLUSIVE:
                raise refusal
            if not logged:
                logged = True
                queued()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, CALL_RETRY_S_MAX)
            record = await self._read(name)

    async def _taken(self, name: TopicName, record: Record, base: str, mode: Mode) -> MagnetarError | None:
        """The record contains the new name: no other producer is admitted any more, and this finds those admitted
        before."""
        fence = mode is Mode.EXCLUSIVE_WITH_FENCING
        attached = await self._ask(name, record, base, fence=fence)
        if fence or not attached.others:
            return None
        back = next((one for one in attached.exclusive if one != base), "")  # the former holder, if it returned
        await self._node.scalable.hold(name, before=base, after=back)
        return _fenced(attached.others[0])

    async def _refusal(self, name: TopicName, record: Record, base: str) -> MagnetarError | None:
        if record.exclusive and await self._holds(name, record, record.exclusive, returning=True):
            return _fenced(record.exclusive)
        attached = await self._ask(name, record, base)
        return _fenced(attached.others[0]) if attached.others else None

    async def _holds(self, name: TopicName, record: Record, holder: str, *, returning: bool) -> bool:
        """`returning`: the holder counts as attached while it moves to the children of a reshape."""
        since_ms = self._node.runtime.wall() - EXCLUSIVE_RETURN_S * 1000
        if returning and any(one.parents and one.created_ms > since_ms for one in record.layout.active):
            return True
        return holder in (await self._ask(name, record, "")).exclusive

    async def _ask(self, name: TopicName, record: Record, base: str, *, fence: bool = False) -> Attached:
        """Asks all owners. An owner that does not respond makes the result unknown, and the error reaches the
        caller."""
        request = AskProducers(op="producers", base=base, fence=fence)
        segments = [one.topic(name) for one in record.layout.active]
        answers = await asyncio.gather(*(self._node.peers.owner(one).ask(request) for one in segments))
        exclusive: list[str] = []
        others: list[str] = []
        for answer in answers:
            assert isinstance(answer, Attached)
            exclusive += answer.exclusive
            others += answer.others
        return Attached(tuple(exclusive), tuple(others))

    async def _read(self, name: TopicName) -> Record:
        record = await self._node.scalable.read(name)
        if record is None:
            raise TopicNotFound(f"Scalable topic not found: {name}")
        return record

    # The owner's answer

    def attached(self, name: TopicName, request: AskProducers) -> Attached:
        """The producers attached to a segment on this broker. A segment that is not loaded has none."""
        topic = self._node.topics.loaded.get(name.canonical)
        if not isinstance(topic, Topic):
            return Attached()
        holder = topic.producers.access.exclusive
        others = [one for one in topic.producers if one.base != request.base]
        if request.fence:
            for producer in others:
                topic.producers.close(producer)
            others = []
        exclusive = () if holder is None else (base_name(name, holder.name),)
        return Attached(exclusive, tuple(one.base for one in others))


def _busy(holder: str) -> ProducerBusy:
    return ProducerBusy(f"the topic has an exclusive producer: {holder}")


def _fenced(holder: str) -> Fenced:
    return Fenced(f"the topic has a producer: {holder}")
