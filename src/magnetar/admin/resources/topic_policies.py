"""Policies of single topics, plain and scalable: retention. They override those of the namespace.

Reading an unset policy is 200 with an empty body; with `applied` the response is the effective value from any level.
The policies of a topic are stored separately from it and deleted with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.admin.request import DONE, EMPTY, Request, Response, shown
from magnetar.admin.resolve import check_namespace
from magnetar.admin.resources.policies import check_retention
from magnetar.admin.resources.scalable.topics import name_of, record_of
from magnetar.admin.route import Route, delete, get, post
from magnetar.admin.unknown_fields import check_spelling
from magnetar.base.errors import TopicNotFound
from magnetar.base.names import TopicName
from magnetar.broker.topics.settings import topic_settings
from magnetar.cluster.topic_policies import whole
from magnetar.policy.policies import Retention

if TYPE_CHECKING:
    from magnetar.broker.node import Node

FIELD = "retentionPolicies"


async def read(node: Node, request: Request) -> Response:
    name = await _found(node, request)
    own = await node.topic_policies.of(name)
    if request.flag("applied"):
        policies = await node.namespaces.get(name.namespace)
        retention = topic_settings(node.settings, policies, own, scalable=name.is_scalable).retention
        return shown(Retention(retention.minutes, retention.megabytes))
    value = own.get(FIELD)
    return EMPTY if value is None else shown(value)


async def write(node: Node, request: Request) -> Response:
    name = await _found(node, request)
    value: Retention | None = request.read(Retention)
    if value is not None:
        check_spelling(request.read(dict[str, Any]), value)
        check_retention(value)
    return await _set(node, name, value)


async def remove(node: Node, request: Request) -> Response:
    return await _set(node, await _found(node, request), None)


async def _set(node: Node, name: TopicName, value: Retention | None) -> Response:
    await node.topic_policies.set(name, FIELD, None if value is None else msgspec.structs.asdict(value))
    await node.topics.configure(name.namespace)
    return DONE


async def _found(node: Node, request: Request) -> TopicName:
    """The topic, or the partitioned topic of a partition."""
    if request.path.startswith("/admin/v2/scalable/"):
        scalable = name_of(node, request)
        await record_of(node, scalable)
        return scalable
    name = whole(request.topic)
    await check_namespace(node, name)
    if await node.catalogue.partitioned(name) is None and not await node.catalogue.exists(request.topic):
        raise TopicNotFound(f"Topic {request.topic} not found")
    return name


def _routes(topic: str) -> list[Route]:
    path = f"{topic}/retention"
    return [
        get(path, read, "Retention of a topic; with `applied`, the effective value", Retention),
        post(path, write, "Set the retention of a topic", Retention),
        delete(path, remove, "Remove the retention of a topic; the namespace policy applies again"),
    ]


ROUTES = [
    *_routes("/admin/v2/persistent/{tenant}/{namespace}/{topic}"),
    *_routes("/admin/v2/scalable/{tenant}/{namespace}/{topic}"),
]
