"""Partitioned topics: create, read, grow, delete, list. `cluster` decides the maximum number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resolve import check_namespace, partitions
from magnetar.admin.route import Route, delete, get, post, put
from magnetar.client.documents.topics import PartitionedTopicMetadata

if TYPE_CHECKING:
    from magnetar.broker.node import Node

WANTED: Any = int | PartitionedTopicMetadata


async def names(node: Node, request: Request) -> Response:
    return shown(await node.catalogue.partitioned_topics(request.namespace, request.domain))


async def read(node: Node, request: Request) -> Response:
    """A client about to use the topic sends `checkAllowAutoCreation`: the topic may be created by this request."""
    name = request.topic
    await check_namespace(node, name)
    count = await node.topics.partitions(name, create=request.flag("checkAllowAutoCreation"))
    metadata = await node.catalogue.partitioned(name)
    return shown(
        {"partitions": count, "deleted": False} if metadata is None else {**metadata.document(), "partitions": count}
    )


async def create(node: Node, request: Request) -> Response:
    name = request.topic
    document = _wanted(request)
    await check_namespace(node, name)
    await node.segments.plains.check_free(name)
    await node.catalogue.create_partitioned(name, document.partitions, document.properties)
    return DONE


async def grow(node: Node, request: Request) -> Response:
    name = request.topic
    count = _wanted(request)
    await check_namespace(node, name)
    await node.segments.plains.check_free(name)
    await node.catalogue.grow(name, count.partitions)
    await node.segments.plains.grown(name)
    return DONE


async def create_missing(node: Node, request: Request) -> Response:
    await check_namespace(node, request.topic)
    await node.catalogue.create_missing_partitions(request.topic)
    return DONE


async def remove(node: Node, request: Request) -> Response:
    """Deletes every partition, then the record. After an interruption the caller repeats the request."""
    name, force = request.topic, request.flag("force")
    await node.segments.plains.check_free(name)
    term = await node.segments.plains.term(name)
    for partition in await partitions(node, name) or []:
        await node.peers.owner(partition).delete("delete", term, force=force)
    await node.catalogue.forget_partitioned(name)
    await node.segments.plains.forget(name)
    await node.topic_policies.delete(name)
    return DONE


def _wanted(request: Request) -> PartitionedTopicMetadata:
    """The number of partitions: a bare number, or a field of the document."""
    value: int | PartitionedTopicMetadata = request.need(WANTED)
    return PartitionedTopicMetadata(value) if isinstance(value, int) else value


def _routes(domain: str) -> list[Route]:
    topic = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
    return [
        get(f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/partitioned", names, "The partitioned topics", list[str]),
        get(f"{topic}/partitions", read, "How many partitions a topic has", PartitionedTopicMetadata),
        put(f"{topic}/partitions", create, "Create a partitioned topic", WANTED),
        post(f"{topic}/partitions", grow, "Give it more partitions", WANTED),
        delete(f"{topic}/partitions", remove, "Delete a partitioned topic"),
        post(f"{topic}/createMissedPartitions", create_missing, "Finish an interrupted creation"),
    ]


ROUTES = _routes("persistent") + _routes("non-persistent")
