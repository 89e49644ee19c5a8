"""What the stories of scalable topics share: a topic, its watchers, its stream consumers, a split."""

from __future__ import annotations

from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, World, command, settle

X = "topic://public/default/x"
NAME = topic_name(X)
M1 = "Pulsar-Java-v5.0.0-M1"
OURS = {"feature_flags": {"magnetar_extensions": 1}}


def updates(client: Client, session_id: int = 1) -> list[pb.CommandScalableTopicUpdate]:
    said = [said for said, _ in client.heard.heard if said.type == pb.BaseCommand.SCALABLE_TOPIC_UPDATE]
    return [one.scalableTopicUpdate for one in said if one.scalableTopicUpdate.session_id == session_id]


def pushes(client: Client) -> list[pb.CommandScalableTopicAssignmentUpdate]:
    said = [said for said, _ in client.heard.heard if said.type == pb.BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE]
    return [one.scalableTopicAssignmentUpdate for one in said]


def ids(assignment: pb.ScalableConsumerAssignment) -> list[int]:
    return [one.segment_id for one in assignment.segments]


async def watch(client: Client, topic: str = X, session_id: int = 1, **fields: Any) -> pb.CommandScalableTopicUpdate:
    before = len(updates(client, session_id))
    client.say(command("SCALABLE_TOPIC_LOOKUP", session_id=session_id, topic=topic, **fields))
    for _ in range(40):
        if len(updates(client, session_id)) > before:
            return updates(client, session_id)[-1]
        await settle()
    raise AssertionError("the lookup was not answered")


async def consume(
    client: Client, name: str = "a", topic: str = X, consumer_id: int = 0, **fields: Any
) -> pb.CommandScalableTopicSubscribeResponse:
    answer = await client.ask(
        "SCALABLE_TOPIC_SUBSCRIBE",
        topic=topic,
        subscription=fields.pop("subscription", "s"),
        consumer_name=name,
        consumer_id=consumer_id,
        consumer_type=fields.pop("consumer_type", pb.STREAM),
        **fields,
    )
    return answer.scalableTopicSubscribeResponse


async def split(world: World, segment: int = 0) -> None:
    done = world.spawn(world.node.scalable.split(NAME, SegmentId(segment)))
    for _ in range(100):
        if done.done():
            break
        await settle()
    await done
