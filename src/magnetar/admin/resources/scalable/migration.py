"""The migration of plain topics to scalable topics over REST: the plan (GET) and the execution (POST).

Words and statuses are Pulsar's: 404 if the plain topic does not exist; 409 if it is already a scalable topic, or if
clients without support for scalable topics still use it. A migration cannot be reversed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request, Response, shown
from magnetar.admin.resolve import check_namespace
from magnetar.admin.resources.scalable.reshape import reshaped
from magnetar.admin.resources.scalable.topics import check_enabled
from magnetar.admin.route import get, post
from magnetar.base.names import Domain, TopicName, topic_name
from magnetar.broker.migration import migration
from magnetar.client.documents.scalable import (
    CarriedSubscription,
    HashRange,
    MigratedSegment,
    MigrationPreview,
    PlainTopicClient,
)

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def preview(node: Node, request: Request) -> Response:
    """The plan of a migration; changes nothing."""
    plan = await migration.preview(node, await _plain(node, request))
    return shown(
        MigrationPreview(
            topics=list(plan.topics),
            segments=[
                MigratedSegment(
                    segmentId=one.id,
                    hashRange=HashRange(start=one.range.start, end=one.range.end),
                    state="ACTIVE" if one.is_active else "SEALED",
                    legacyTopicName=one.legacy_topic or None,
                )
                for one in plan.layout.segments
            ],
            subscriptions=[
                CarriedSubscription(subscription=one.name, type=None if one.undecided else one.type)
                for one in plan.subscriptions
            ],
            clients=[
                PlainTopicClient(
                    name=one.name,
                    address=one.address,
                    clientVersion=one.version,
                    subscription=one.subscription or None,
                    follows=one.follows,
                )
                for one in plan.clients
            ],
            forceNeeded=bool(plan.left),
            messages=plan.messages,
            bytes=plan.size_bytes,
        )
    )


async def migrate(node: Node, request: Request) -> Response:
    """204 as in Pulsar; with `show=operation` the completed operation, or with `wait=false` the started one."""
    name = await _plain(node, request)
    done = await migration.migrate(
        node,
        name,
        force=request.flag("force"),
        reason=request.query.get("reason", ""),
        wait=request.flag("wait", True),
    )
    return await reshaped(node, name.scalable, request, done)


async def _plain(node: Node, request: Request) -> TopicName:
    check_enabled(node)
    name = migration.plain_of(topic_name(f"{Domain.PERSISTENT}://{request.namespace}/{request.parts['topic']}"))
    await check_namespace(node, name)
    return name


_MIGRATE = "/admin/v2/scalable/{tenant}/{namespace}/{topic}/migrate"
ROUTES = [
    get(_MIGRATE, preview, "Dry run: the plan for the migration of a plain topic", MigrationPreview),
    post(
        _MIGRATE,
        migrate,
        "Migrate a plain topic to a scalable topic in place; with force, also while old clients use it",
    ),
]
