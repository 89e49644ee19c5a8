"""Storage of stages on this broker: their topics through `cluster/calls/topic_calls.py`, and their messages through an
internal client (`publish`) with ordinary lookups, routing and deduplication."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from magnetar.base.errors import Closed, Misuse
from magnetar.base.ids import Term
from magnetar.base.names import TopicName
from magnetar.broker.handlers.scalable import check_enabled, find
from magnetar.staged.machine import CommittedStage, Sink
from magnetar.staged.publisher import Saved
from magnetar.staged.service import StagedSinkService

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.client.client import Client

CURSOR = "__sink"  # keeps what a stage holds from being trimmed
_CLIENT_MODULES = (  # of the internal client, in steps of about 20 ms
    "magnetar.client.batch_read.range_reader",
    "magnetar.broker.staged.rebatch",
    "magnetar.client.option_help",
    "magnetar.client.consumer.consumer",
    "magnetar.client.consumer.scalable.checkpoint.consumer",
    "magnetar.client.consumer.scalable.namespace.consumers",
    "magnetar.client.client",
    "magnetar.broker.staged.publish",
)
_TERM = Term(0)  # a stage has no competing writers: its first caller creates, seals and deletes it once


class StageStore:
    """Implements `StageBackend` of `staged/publisher.py` on a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._client: Client | None = None

    async def create(self, topic: TopicName) -> None:
        await self._node.peers.owner(topic).create(topic.local_name, _TERM, cursors=(CURSOR,))

    async def seal(self, topic: TopicName) -> int:
        return (await self._node.peers.owner(topic).seal(topic.local_name, _TERM)).messages

    async def delete(self, topic: TopicName) -> None:
        await self._node.peers.owner(topic).delete(topic.local_name, _TERM, force=True)

    async def partitions(self, topic: TopicName) -> int:
        if topic.is_segment or topic.is_stage or not topic.is_persistent:
            raise Misuse("the target of a stage must be a persistent or scalable topic", topic=str(topic))
        if not topic.is_scalable:
            return await self._node.topics.partitions(topic, create=True)
        check_enabled(self._node)
        await find(self._node, topic, create=True)
        return 0

    async def publish(self, sink: Sink, chosen: CommittedStage, stage: TopicName, saved: Saved) -> None:
        if self._client is None:
            for module in _CLIENT_MODULES:
                import_module(module)
                await asyncio.sleep(0)  # all of them in one loop iteration would stop other clients for 0.1 s
        from magnetar.broker.staged import publish as staged_publish

        if self._client is None:
            self._client = staged_publish.a_client(self._node.addresses.url, self._node.runtime)
        await staged_publish.pour(self._client, sink, chosen, stage, saved)

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.__aexit__(Closed, None, None)  # do not wait: the next leader publishes pending stages


def sinks_of(node: Node) -> tuple[StagedSinkService, StageStore]:
    staging = StageStore(node)
    service = StagedSinkService(
        node.metadata,
        node.runtime,
        staging,
        me=lambda: node.ownership.me.id,
        sweeps=lambda path: node.ownership.is_chosen(path),
        failed=node.task_failed,
    )
    return service, staging
