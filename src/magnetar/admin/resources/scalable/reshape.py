"""Reshapes of scalable topics over REST: split, merge, rebucket, and their progress.

Formats and words are Pulsar's. An unknown segment is 404, and a segment that cannot be reshaped is 412, never 500. The
controller of the topic checks a request and makes the changes: a caller of another broker is redirected to the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resources.scalable.topics import name_of, record_of, segment_of
from magnetar.admin.route import get, post
from magnetar.base.errors import Misuse, NotFound
from magnetar.base.ids import SegmentId
from magnetar.base.names import TopicName
from magnetar.base.ranges import slot_from_hex
from magnetar.client.documents.scalable import Operation, OperationStep
from magnetar.scalable.service import Operation as Done

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.scalable.record.record import Record


async def split(node: Node, request: Request) -> Response:
    """Splits in two halves; `at`: the start of the second child, in hexadecimal; `into`: the number of children."""
    name = name_of(node, request)
    segment = segment_of(request, "segment")
    at = request.query.get("at")
    into = request.number("into", 2)
    if at is not None and "into" in request.query:
        raise Misuse("a split takes either `at` (a hash) or `into` (a number of children), not both")
    await record_of(node, name)
    done = await node.scalable.split(
        name,
        segment,
        at=None if at is None else slot_from_hex(at),
        into=into,
        reason=request.query.get("reason", ""),
        wait=request.flag("wait", True),
    )
    return await reshaped(node, name, request, done)


async def merge(node: Node, request: Request) -> Response:
    return await _merge(node, request, [segment_of(request, "first"), segment_of(request, "second")])


async def merge_many(node: Node, request: Request) -> Response:
    """`segments`: comma-separated ids of adjacent segments."""
    words = request.query.get("segments", "").split(",")
    if not all(word.strip().isascii() and word.strip().isdecimal() for word in words):
        raise Misuse("name the segments to merge: ?segments=1,2,3")
    return await _merge(node, request, [SegmentId(int(word)) for word in words])


async def _merge(node: Node, request: Request, ids: Sequence[SegmentId]) -> Response:
    name = name_of(node, request)
    if len(set(ids)) != len(ids) or len(ids) < 2:
        raise Misuse("a merge requires at least two distinct segments")
    await record_of(node, name)
    reason, wait = request.query.get("reason", ""), request.flag("wait", True)
    done = await node.scalable.merge(name, ids, reason=reason, wait=wait)
    return await reshaped(node, name, request, done)


async def rebucket(node: Node, request: Request) -> Response:
    """Replaces the segment by one of the same range with `bucketCount` entry buckets."""
    name = name_of(node, request)
    segment, buckets = segment_of(request, "segment"), request.number("bucketCount")
    await record_of(node, name)
    reason, wait = request.query.get("reason", ""), request.flag("wait", True)
    done = await node.scalable.rebucket(name, segment, buckets, reason=reason, wait=wait)
    return await reshaped(node, name, request, done)


async def operation(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    record = await record_of(node, name, plain=True)
    running = node.scalable.operation(name, request.parts["op"])
    remembered = _remembered(record, request.parts["op"])
    if running is not None:
        return shown(_operation(running, remembered))
    if remembered is not None:
        return shown(remembered)
    raise NotFound(f"operation {request.parts['op']} of {name} not found; only recent operations are kept")


async def operations(node: Node, request: Request) -> Response:
    """The recorded operations: the reshape in progress, then past ones, newest first."""
    return shown(_past(await record_of(node, name_of(node, request), plain=True)))


def _past(record: Record) -> list[Operation]:
    operations = [
        Operation(
            op=past.op,
            kind=past.kind,
            phase=past.outcome,
            steps=[OperationStep(name=past.outcome, atMs=past.at_ms)],
            parentIds=list(past.parents),
            childIds=list(past.children),
            trigger=past.trigger,
            reason=past.reason,
        )
        for past in reversed(record.history)
    ]
    intent = record.intent
    if intent is not None:
        under_way = Operation(
            op=intent.op,
            kind=intent.kind,
            phase="ABANDONED" if intent.abandoned else "INTENT",
            steps=[OperationStep(name="INTENT", atMs=intent.created_ms)],
            parentIds=list(intent.parents),
            childIds=[child.id for child in intent.children],
            trigger=intent.trigger,
            reason=intent.reason,
            error=intent.abandoned,
        )
        operations.insert(0, under_way)
    return operations


def _remembered(record: Record, op: str) -> Operation | None:
    return next((one for one in _past(record) if one.op == op), None)


async def reshaped(node: Node, name: TopicName, request: Request, done: Done) -> Response:
    """204 as in Pulsar; with `show=operation` the completed operation, or with `wait=false` the started one."""
    if request.query.get("show") != "operation":
        return DONE if done.done else Response(202)
    document = _operation(done, _remembered(await record_of(node, name, plain=True), done.op))
    return shown(document, 200 if done.done else 202)


def _operation(done: Done, remembered: Operation | None) -> Operation:
    """The steps that this broker observed, with the recorded facts of the operation."""
    return Operation(
        op=done.op,
        kind=done.kind,
        phase=done.phase,
        steps=[OperationStep(name=step.name, atMs=step.at_ms) for step in done.steps],
        parentIds=[] if remembered is None else remembered.parentIds,
        childIds=[] if remembered is None else remembered.childIds,
        trigger="" if remembered is None else remembered.trigger,
        reason="" if remembered is None else remembered.reason,
        error=done.error,
    )


_TOPIC = "/admin/v2/scalable/{tenant}/{namespace}/{topic}"
ROUTES = [
    post(
        f"{_TOPIC}/split/{{segment}}",
        split,
        "Split a segment in halves, `at` a hash, or `into` n children; `wait=false`: only start it",
    ),
    post(f"{_TOPIC}/merge/{{first}}/{{second}}", merge, "Merge two adjacent segments; `wait=false`: only start it"),
    post(f"{_TOPIC}/merge", merge_many, "Merge adjacent segments: `segments=1,2,3`; `wait=false`: only start it"),
    post(
        f"{_TOPIC}/rebucket/{{segment}}",
        rebucket,
        "Set the number of entry buckets of a segment: `bucketCount`; `wait=false`: only start it",
    ),
    get(f"{_TOPIC}/operations", operations, "The reshapes of a topic, newest first", list[Operation]),
    get(f"{_TOPIC}/operations/{{op}}", operation, "One reshape with its steps", Operation),
]
