"""One exclusive producer for a whole scalable topic, however many segments it has, through every reshape (H-E11).

A segment alone cannot say who is exclusive: after a split its children would go to whoever came first to each. So the
holder's name is in the topic's record, changed by compare-and-set, and an owner lets nobody else in while the holder is
attached to any segment. Nobody gives the name back: whoever comes next asks the owners whether the holder is still
there, and not while it is on its way from a sealed segment to its children. Looked at again after a producer was let
in, because looking and letting in are not one step. `topic/producers/access.py` goes on deciding for the one segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import Fenced, MagnetarError, ProducerBusy, TopicNotFound
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN, EXCLUSIVE_RETURN_S
from magnetar.base.names import TopicName
from magnetar.cluster.peers import AskProducers, Attached
from magnetar.scalable.record.record import Record
from magnetar.topic.producers.access import Mode
from magnetar.topic.producers.producer import base_name
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node


class ExclusiveProducers:
    def __init__(self, node: Node) -> None:
        self._node = node

    # Whoever lets a producer in

    async def admit(self, name: TopicName, record: Record, base: str, mode: Mode, queued: Callable[[], None]) -> None:
        """Before it is attached to a segment. `queued`: it has to wait, and this waits."""
        if mode is Mode.SHARED:
            await self._admit_shared(name, record, base)
        elif record.exclusive != base:
            await self._claim(name, record, base, mode, queued)

    async def check(self, name: TopicName, base: str, mode: Mode) -> None:
        """After it was attached: another may have taken the topic meanwhile."""
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
        wait_s, told = CALL_RETRY_S_MIN, False
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
            if not told:
                told = True
                queued()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, CALL_RETRY_S_MAX)
            record = await self._read(name)

    async def _taken(self, name: TopicName, record: Record, base: str, mode: Mode) -> MagnetarError | None:
        """The name stands in the record: nobody else comes in any more, and who came in before is seen now."""
        fence = mode is Mode.EXCLUSIVE_WITH_FENCING
        found = await self._ask(name, record, base, fence=fence)
        if fence or not found.others:
            return None
        back = next((one for one in found.exclusive if one != base), "")  # who held it and came back meanwhile
        await self._node.scalable.hold(name, before=base, after=back)
        return _fenced(found.others[0])

    async def _refusal(self, name: TopicName, record: Record, base: str) -> MagnetarError | None:
        if record.exclusive and await self._holds(name, record, record.exclusive, returning=True):
            return _fenced(record.exclusive)
        found = await self._ask(name, record, base)
        return _fenced(found.others[0]) if found.others else None

    async def _holds(self, name: TopicName, record: Record, holder: str, *, returning: bool) -> bool:
        """`returning`: it counts as attached while it is on its way to the children of a reshape."""
        since_ms = self._node.runtime.wall() - EXCLUSIVE_RETURN_S * 1000
        if returning and any(one.parents and one.created_ms > since_ms for one in record.layout.active):
            return True
        return holder in (await self._ask(name, record, "")).exclusive

    async def _ask(self, name: TopicName, record: Record, base: str, *, fence: bool = False) -> Attached:
        """All owners. One that does not answer: nobody knows, and the caller is told so."""
        request = AskProducers(op="producers", base=base, fence=fence)
        segments = [one.topic(name) for one in record.layout.active]
        found = await asyncio.gather(*(self._node.peers.owner(one).ask(request) for one in segments))
        exclusive: list[str] = []
        others: list[str] = []
        for answer in found:
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
        """Who is attached to a segment here. One that is not loaded has nobody."""
        topic = self._node.topics.loaded.get(name.canonical)
        if not isinstance(topic, Topic):
            return Attached()
        holder = topic.producers.access.exclusive
        others = [one for one in topic.producers if one.base != request.base]
        if request.fence:
            for one in others:
                topic.producers.close(one)
            others = []
        exclusive = () if holder is None else (base_name(name, holder.name),)
        return Attached(exclusive, tuple(one.base for one in others))


def _busy(holder: str) -> ProducerBusy:
    return ProducerBusy(f"the topic has an exclusive producer: {holder}")


def _fenced(holder: str) -> Fenced:
    return Fenced(f"the topic has a producer: {holder}")
