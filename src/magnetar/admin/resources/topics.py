"""Topics: list, create, delete, unload, terminate, trim; their last message, properties and size after a position.

Persistent and non-persistent topics share these routes; operations that require a stored topic are refused for the
latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from magnetar.admin import fan_out
from magnetar.admin.request import DONE, EMPTY, Request, Response, shown
from magnetar.admin.resolve import check_namespace, not_partitioned, open_topic, partitions, stored
from magnetar.admin.resources.namespaces import listed
from magnetar.admin.route import Route, delete, get, post, put
from magnetar.base.bundles import bundle_from_text
from magnetar.base.errors import AlreadyExists, Conflict, Refused, TopicNotFound
from magnetar.base.ids import Position
from magnetar.base.names import Domain, topic_name
from magnetar.client.documents.topics import MessageId, ResetCursor
from magnetar.ledger.properties import RESERVED, check_given, check_size
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.node import Node


async def names(node: Node, request: Request) -> Response:
    namespace = request.namespace
    policies = await node.namespaces.get(namespace)
    if "bundle" not in request.query:
        return await listed(node, namespace, (request.domain,), request)
    bundle = bundle_from_text(request.query["bundle"])
    topics = await node.topics.names(namespace, (str(request.domain),))
    return shown([name for name in topics if await node.bundles.find(topic_name(name), policies) == bundle])


async def names_in_bundle(node: Node, request: Request) -> Response:
    """The route `/non-persistent/{tenant}/{namespace}/{bundle}`."""
    namespace = request.namespace
    policies = await node.namespaces.get(namespace)
    bundle = bundle_from_text(request.parts["topic"])
    topics = await node.topics.names(namespace, (str(Domain.NON_PERSISTENT),))
    return shown([name for name in topics if await node.bundles.find(topic_name(name), policies) == bundle])


async def create(node: Node, request: Request) -> Response:
    name = request.topic
    properties: dict[str, str] | None = request.read(dict[str, str])
    await check_namespace(node, name)
    if name.is_persistent:
        await node.segments.plains.check_free(name)
        await node.catalogue.create(name, properties)
        return DONE
    if await node.catalogue.partitioned(name) is not None:
        raise AlreadyExists("This topic already exists")
    await node.served.claim(name)
    await node.topics.get(name, create=True)
    return DONE


async def remove(node: Node, request: Request) -> Response:
    name = request.topic
    await check_namespace(node, name)
    if await node.catalogue.partitioned(name) is not None:
        raise Conflict(
            f"{name} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic."
        )
    await node.segments.plains.check_free(name)
    await node.served.claim(name)
    deleted = await node.peers.owner(name).delete(
        "delete", await node.segments.plains.term(name), force=request.flag("force")
    )
    if name.is_persistent and not deleted.existed:
        raise TopicNotFound(f"Topic {name} not found")
    await node.segments.plains.forget(name)
    await node.topic_policies.delete(name)
    return DONE


async def unload(node: Node, request: Request) -> Response:
    name = request.topic

    async def unload_one(each: TopicName) -> None:
        await node.served.claim(each)
        await node.topics.unload(each)

    parts = await partitions(node, name)
    if parts is not None:
        await fan_out.of_owners(node, request, parts, unload_one, None, skips=TopicNotFound)
    elif await node.catalogue.exists(name):
        await unload_one(name)
    else:
        raise TopicNotFound(f"Topic {name} not found")
    return DONE


async def terminate(node: Node, request: Request) -> Response:
    name = request.topic
    if not name.is_persistent:
        raise Refused("Need to provide a persistent topic name", http_status=406)
    await check_namespace(node, name)
    await not_partitioned(node, name, "Termination of a partitioned topic is not allowed")
    await open_topic(node, name)
    return shown(await _terminate(node, name))


async def terminate_partitions(node: Node, request: Request) -> Response:
    parts = await partitions(node, request.topic)
    if parts is None:
        words = "Termination of a non-partitioned topic is not allowed using partitioned-terminate"
        raise Refused(f"{words}, please use terminate commands", http_status=405)

    async def terminate_one(part: TopicName) -> MessageId:
        await open_topic(node, part)
        return await _terminate(node, part)

    ends = await fan_out.of_owners(node, request, parts, terminate_one, MessageId, tail="terminate")
    return shown({str(index): ends[part] for index, part in enumerate(parts)})


async def _terminate(node: Node, name: TopicName) -> MessageId:
    await node.segments.plains.check_free(name)
    end = (await node.peers.owner(name).seal("terminate", await node.segments.plains.term(name))).end
    return MessageId(end.ledger, end.entry)


async def trim(node: Node, request: Request) -> Response:
    await (await stored(node, request, "Trim")).trim()
    return EMPTY


async def last_message_id(node: Node, request: Request) -> Response:
    topic = await stored(node, request, "GetLastMessageId")
    position, batch_index = await topic.last_message()
    return shown(MessageId(position.ledger, position.entry, topic.partition, batch_index))


async def backlog_size(node: Node, request: Request) -> Response:
    """The bytes stored after a message."""
    topic = await stored(node, request, "Backlog size")
    reset = request.need(ResetCursor)
    managed = topic.managed
    start = managed.after(Position(reset.ledgerId, reset.entryId))
    size = (await managed.count(start, managed.last))[1] if start <= managed.last else 0
    return shown(size)


# Properties


async def read_properties(node: Node, request: Request) -> Response:
    name = request.topic
    await check_namespace(node, name)
    metadata = await node.catalogue.partitioned(name)
    if metadata is not None:
        return shown(metadata.properties or {})
    topic = await open_topic(node, name)
    return shown(_own(topic.managed.properties) if isinstance(topic, Topic) else {})


async def add_properties(node: Node, request: Request) -> Response:
    name = request.topic
    more = request.need(dict[str, str])
    check_given(more)
    await check_namespace(node, name)
    metadata = await node.catalogue.partitioned(name)
    if metadata is not None:
        check_size({**(metadata.properties or {}), **more})
        await node.catalogue.update_properties(name, more)
        return DONE
    topic = await stored(node, request, "Properties")
    check_size({**_own(topic.managed.properties), **more})
    await topic.managed.set_properties(more)
    return DONE


async def remove_property(node: Node, request: Request) -> Response:
    key = request.query.get("key", "")
    topic = await stored(node, request, "Properties")
    if key in _own(topic.managed.properties):
        await topic.managed.set_properties({}, remove=[key])
    return DONE


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if not key.startswith(RESERVED)}


def _routes(domain: str) -> list[Route]:
    namespace = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}"
    topic = f"{namespace}/{{topic}}"
    return [
        get(namespace, names, "The topics of a namespace; pages by `after` and `limit`", list[str]),
        put(topic, create, "Create a topic", dict[str, str]),
        delete(topic, remove, "Delete a topic; with force, also while it is used"),
        put(f"{topic}/unload", unload, "Unload a topic; its clients reconnect"),
        post(
            f"{topic}/terminate",
            terminate,
            "Terminate a topic: it accepts no more messages; this cannot be undone",
            gives=MessageId,
        ),
        post(
            f"{topic}/terminate/partitions",
            terminate_partitions,
            "Terminate all partitions; this cannot be undone",
            gives=dict[str, MessageId],
        ),
        post(f"{topic}/trim", trim, "Trim messages that no subscription or retention needs"),
        get(f"{topic}/lastMessageId", last_message_id, "The id of the last message", MessageId),
        put(f"{topic}/backlogSize", backlog_size, "The bytes stored after a message", ResetCursor, int),
        get(f"{topic}/properties", read_properties, "The properties of a topic", dict[str, str]),
        put(f"{topic}/properties", add_properties, "Add properties", dict[str, str]),
        delete(f"{topic}/properties", remove_property, "Remove the property `key`"),
    ]


ROUTES = [
    *_routes("persistent"),
    *_routes("non-persistent"),
    get(
        "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}",
        names_in_bundle,
        "The non-persistent topics of a bundle",
        list[str],
    ),
]
