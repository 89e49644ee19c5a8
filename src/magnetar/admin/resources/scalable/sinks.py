"""Sinks of staged publishing over REST: list them, read their progress, delete one.

Writers create sinks (a Spark query, `client.stages`); these routes are for operators. Any broker answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.route import delete, get
from magnetar.base.names import topic_name
from magnetar.client.documents.sinks import PublishingStage, SinkStatus
from magnetar.staged.machine import Sink

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def sinks(node: Node, request: Request) -> Response:
    """The sinks whose topic is in the namespace, by topic and name."""
    sinks = [
        sink async for _, sink in node.sinks.records.all() if topic_name(sink.topic).namespace == request.namespace
    ]
    sinks.sort(key=lambda sink: (sink.topic, sink.name))
    return shown([_document(node, sink) for sink in sinks])


async def sink(node: Node, request: Request) -> Response:
    return shown(_document(node, await node.sinks.find(request.topic, request.parts["sink"])))


async def remove(node: Node, request: Request) -> Response:
    await node.sinks.forget(request.topic, request.parts["sink"])
    return DONE


def _document(node: Node, sink: Sink) -> SinkStatus:
    return SinkStatus(
        sink=sink.name,
        topic=sink.topic,
        lastBatch=sink.last,
        openStages=len(sink.stages),
        dropped=len(sink.dropped),
        publishing=[
            PublishingStage(stage=one.number, batch=one.batch, messages=one.messages, published=one.published)
            for one in sink.chosen
        ],
        backlogMessages=sum(one.messages - one.published for one in sink.chosen),
        run=sink.run,
        once=sink.once,
        changedMs=sink.changed_ms,
        trouble=node.sinks.trouble(sink),
    )


_SINKS = "/admin/v2/sinks"
_SINK = f"{_SINKS}/{{domain}}/{{tenant}}/{{namespace}}/{{topic}}/{{sink}}"
ROUTES = [
    get(f"{_SINKS}/{{tenant}}/{{namespace}}", sinks, "The sinks that write to topics of a namespace", list[SinkStatus]),
    get(_SINK, sink, "One sink: its last batch and the batches in progress", SinkStatus),
    delete(_SINK, remove, "Delete a sink and all its stages, published or not"),
]
