"""Automatic scaling over REST: policies of namespaces and topics, the explanation of decisions, and scaling on request.

The policy routes and their answers are Pulsar's; the other routes are extensions. The leader of a topic explains it. A
topic without a leader is explained by any broker, which then does not know for how long its segments have been cold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar.admin.request import DONE, EMPTY, Request, Response, shown
from magnetar.admin.resources.scalable.topics import name_of, record_of
from magnetar.admin.route import delete, get, post
from magnetar.admin.unknown_fields import check_spelling
from magnetar.base.errors import Misuse, Moved, SubscriptionNotFound
from magnetar.base.limits import SCALE_HOLD_S_MAX, SEGMENTS_SCALED_MAX
from magnetar.base.names import TopicName
from magnetar.client.documents.autoscale import (
    AutoScaleOverride,
    AutoScaleReport,
    Decision,
    MeasuredSegment,
    ScaleResult,
    WantedConsumers,
)
from magnetar.layout.autoscale.policy import as_override, check, encode_override, overlaid
from magnetar.scalable.autoscale.settings import broker_policy
from magnetar.scalable.autoscale.stored_policy import namespace_override, topic_override

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.scalable.record.record import Record


# Policies


async def read_policy(node: Node, request: Request) -> Response:
    record = await record_of(node, name_of(node, request))
    return shown(msgspec.json.decode(record.autoscale)) if record.autoscale else EMPTY


async def write_policy(node: Node, request: Request) -> Response:
    override = _override(request)
    name = name_of(node, request)
    await record_of(node, name)
    namespace = namespace_override(await node.namespaces.policies(name.namespace))
    check(overlaid(broker_policy(node.settings), namespace, override))
    await _store(node, name, lambda _: override)
    return DONE


async def remove_policy(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    await record_of(node, name)
    await _store(node, name, lambda _: None)
    return DONE


async def read_namespace_policy(node: Node, request: Request) -> Response:
    document = (await node.namespaces.get(request.namespace)).scalableTopicAutoScalePolicy
    return EMPTY if document is None else shown(document)


async def write_namespace_policy(node: Node, request: Request) -> Response:
    override = _override(request)
    check(overlaid(broker_policy(node.settings), override))
    await _store_namespace(node, request, msgspec.to_builtins(override))
    return DONE


async def remove_namespace_policy(node: Node, request: Request) -> Response:
    await _store_namespace(node, request, None)
    return DONE


async def _store_namespace(node: Node, request: Request, document: dict[str, Any] | None) -> None:
    await node.namespaces.update(
        request.namespace, lambda before: msgspec.structs.replace(before, scalableTopicAutoScalePolicy=document)
    )


def _override(request: Request) -> AutoScaleOverride:
    override: AutoScaleOverride = request.need(AutoScaleOverride)
    check_spelling(request.read(dict[str, Any]), override)
    return override


async def _store(node: Node, name: TopicName, change: Any) -> None:
    def changed(record: Record) -> Record:
        return replace(record, autoscale=encode_override(change(topic_override(record))))

    await node.scalable.records.change(name, changed)
    node.autoscaler.wake(name)


async def pause(node: Node, request: Request) -> Response:
    return await _pause(node, request, True)


async def resume(node: Node, request: Request) -> Response:
    return await _pause(node, request, None)


async def _pause(node: Node, request: Request, paused: bool | None) -> Response:
    name = name_of(node, request)
    await record_of(node, name)

    def change(before: AutoScaleOverride | None) -> AutoScaleOverride | None:
        after = msgspec.structs.replace(before or AutoScaleOverride(), paused=paused)
        return None if after == AutoScaleOverride() else after

    await _store(node, name, change)
    return DONE


# Explanations


async def explain(node: Node, request: Request) -> Response:
    name = name_of(node, request)
    record = await record_of(node, name)
    await _check_leader(node, name)
    situation, evaluation = await node.autoscaler.look(name, record)
    policy, layers = await node.autoscaler.policy(name, record)
    scaling = node.autoscaler.log.of(name)
    return shown(
        AutoScaleReport(
            topic=str(name),
            cause=cause(evaluation.decisions),
            policy=as_override(policy),
            layers=layers,
            atMs=situation.now_ms,
            decisions=list(evaluation.decisions),
            segments=[
                MeasuredSegment(
                    segmentId=one.id,
                    start=one.range.start,
                    end=one.range.end,
                    state="ACTIVE" if one.is_active else "SEALED",
                    load=situation.loads.get(one.id),
                    coldSinceMs=situation.cold_since_ms.get(one.id, 0),
                )
                for one in record.layout.segments
                if one.is_active or one.id in situation.loads
            ],
            consumers={one.subscription: one.consumers for one in situation.demands},
            wanted=scaling.wanted,
        )
    )


def cause(decisions: tuple[Decision, ...]) -> str:
    """The sentence of the most important decision: taken ones before suppressed ones."""
    first = min(decisions, key=lambda one: not one.taken)
    return f"{first.kind.lower()}: {first.why}" if first.kind != "NONE" else first.why


async def history(node: Node, request: Request) -> Response:
    """The decisions of this leader, taken and suppressed, newest first."""
    name = name_of(node, request)
    await record_of(node, name)
    await _check_leader(node, name)
    scaling = node.autoscaler.log.find(name)
    return shown([] if scaling is None else list(reversed(scaling.kept)))


async def wanted(node: Node, request: Request) -> Response:
    name, subscription = name_of(node, request), request.parts["subscription"]
    record = await record_of(node, name)
    await _check_leader(node, name)
    situation, _ = await node.autoscaler.look(name, record)
    number = node.autoscaler.log.of(name).wanted.get(subscription)
    if number is None:
        raise SubscriptionNotFound(f"Subscription {subscription} not found on topic {name}")
    consumers = {one.subscription: one.consumers for one in situation.demands}
    return shown(WantedConsumers(wantedConsumers=number, consumers=consumers.get(subscription, 0)))


async def _check_leader(node: Node, name: TopicName) -> None:
    leader = await node.scalable.leader(name)
    if leader is not None and leader.id != node.ownership.me.id:
        http = leader.urls.http or leader.urls.https
        words = f"{name} is led by {leader.id}: send the request to that broker"
        raise Moved(words, owner=leader.id, http=http, resource=str(name))


# Scaling on request


async def scale(node: Node, request: Request) -> Response:
    """Splits until the topic has `segments`; with `holdSeconds` it keeps at least this number for the given time."""
    name = name_of(node, request)
    segments, hold_s = request.number("segments"), request.number("holdSeconds", 0)
    if not 1 <= segments <= SEGMENTS_SCALED_MAX:
        raise Misuse(f"segments must be between 1 and {SEGMENTS_SCALED_MAX}")
    if not 0 <= hold_s <= SCALE_HOLD_S_MAX:
        raise Misuse(f"holdSeconds must be between 0 and {SCALE_HOLD_S_MAX:.0f}")
    before = len((await record_of(node, name)).layout.active)
    until_ms = node.runtime.wall() + hold_s * 1000 if hold_s else 0

    def change(stored: AutoScaleOverride | None) -> AutoScaleOverride:
        held, until = (segments, until_ms) if hold_s else (None, None)
        return msgspec.structs.replace(stored or AutoScaleOverride(), heldSegments=held, heldUntilMs=until)

    await _store(node, name, change)
    record = await node.autoscaler.scale_out(name, segments)
    return shown(ScaleResult(before=before, after=len(record.layout.active), heldUntilMs=until_ms))


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}/scalableTopicAutoScalePolicy"
_TOPIC = "/admin/v2/scalable/{tenant}/{namespace}/{topic}"
ROUTES = [
    get(f"{_TOPIC}/autoScalePolicy", read_policy, "The automatic scaling that the topic sets", AutoScaleOverride),
    post(f"{_TOPIC}/autoScalePolicy", write_policy, "Set the automatic scaling of the topic", AutoScaleOverride),
    delete(f"{_TOPIC}/autoScalePolicy", remove_policy, "Remove the automatic scaling of the topic"),
    get(_NAMESPACE, read_namespace_policy, "The automatic scaling that the namespace sets", AutoScaleOverride),
    post(_NAMESPACE, write_namespace_policy, "Set the automatic scaling of the namespace", AutoScaleOverride),
    delete(_NAMESPACE, remove_namespace_policy, "Remove the automatic scaling of the namespace"),
    get(f"{_TOPIC}/autoScale", explain, "Loads, policy and decisions, as an evaluation sees them now", AutoScaleReport),
    get(f"{_TOPIC}/autoScale/history", history, "The last automatic decisions, newest first", list[Decision]),
    post(f"{_TOPIC}/autoScale/pause", pause, "Suspend automatic splits and merges of the topic"),
    post(f"{_TOPIC}/autoScale/resume", resume, "Resume automatic splits and merges of the topic"),
    post(f"{_TOPIC}/scale", scale, "Split until the topic has `segments`; keep them for `holdSeconds`", ScaleResult),
    get(
        f"{_TOPIC}/subscriptions/{{subscription}}/wantedConsumers",
        wanted,
        "How many consumers would have work: for an autoscaler of deployments",
        WantedConsumers,
    ),
]
