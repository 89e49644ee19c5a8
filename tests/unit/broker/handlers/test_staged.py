"""Stages over the wire: only for peers that announced our extensions, each call with its answer or a sentence."""

from __future__ import annotations

import pytest

from magnetar.base.names import namespace_name, topic_name
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, Client, World

_T = pb.BaseCommand


def ours(world: World) -> Client:
    return world.client(feature_flags={"magnetar_extensions": 1})


async def test_stage_is_begun_written_sealed_and_committed(world: World) -> None:
    client = ours(world)
    begun = (await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=4)).beginStageResponse
    assert begun.lease_ms > 0
    assert (await client.produce(topic=begun.stage_topic)).type == _T.PRODUCER_SUCCESS
    assert (await client.ask("RENEW_STAGE", stage=begun.stage)).type == _T.SUCCESS
    sealed = await client.ask("SEAL_STAGE", stage=begun.stage)
    assert sealed.sealStageResponse.messages == 0
    said = pb.BaseCommand(type=_T.COMMIT_STAGES)
    said.commitStages.request_id = 900
    said.commitStages.topic, said.commitStages.sink, said.commitStages.batch = TOPIC, "s", 4
    said.commitStages.stages.append(begun.stage)
    for committed in (True, False):
        client.heard.heard.clear()
        client.say(said)
        await client.ask("RENEW_STAGE", stage=begun.stage)
        told = client.answers(900)[-1].commitStagesResponse
        assert (told.committed, told.published) == (committed, True)
    again = (await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=4)).beginStageResponse
    assert not again.HasField("stage")


async def test_those_who_announced_nothing_are_refused(world: World) -> None:
    client = world.client()
    for kind, fields in (
        ("BEGIN_STAGE", {"topic": TOPIC, "sink": "s", "batch": 0}),
        ("SEAL_STAGE", {"stage": "x"}),
        ("COMMIT_STAGES", {"topic": TOPIC, "sink": "s", "batch": 0}),
        ("DROP_STAGES", {}),
        ("RENEW_STAGE", {"stage": "x"}),
    ):
        answer = await client.ask(kind, **fields)
        assert (answer.type, answer.error.error) == (_T.ERROR, pb.NotAllowedError)
        assert "magnetar_extensions" in answer.error.message


async def test_what_cannot_be_is_refused_with_sentence(world: World) -> None:
    client = ours(world)
    gone = f"{'a' * 20}-00000000-1"
    for kind, fields, code in (
        ("BEGIN_STAGE", {"topic": "non-persistent://public/default/x", "sink": "s", "batch": 0}, 22),
        ("BEGIN_STAGE", {"topic": "persistent://no/where/x", "sink": "s", "batch": 0}, 11),
        ("BEGIN_STAGE", {"topic": TOPIC, "sink": "", "batch": 0}, 17),
        ("BEGIN_STAGE", {"topic": TOPIC, "sink": "s", "batch": 2**63}, 22),
        ("SEAL_STAGE", {"stage": "nonsense"}, 17),
        ("SEAL_STAGE", {"stage": gone}, 24),
        ("RENEW_STAGE", {"stage": gone}, 24),
    ):
        answer = await client.ask(kind, **fields)
        assert (kind, answer.type, answer.error.error) == (kind, _T.ERROR, code)
    assert (await client.ask("DROP_STAGES")).type == _T.SUCCESS


SCALABLE = "topic://public/default/rows"


@pytest.mark.setup(allowAutoTopicCreation="false")
async def test_missing_topic_is_refused_before_anything_is_staged(
    world: World,
) -> None:
    client = ours(world)
    for topic in (SCALABLE, "topic://no/where/rows", TOPIC):
        answer = await client.ask("BEGIN_STAGE", topic=topic, sink="s", batch=0)
        assert (topic, answer.error.error) == (topic, pb.TopicNotFound)
        assert ("Namespace no/where" if "no/where" in topic else topic) in answer.error.message
    assert [sink async for sink in world.node.sinks.records.all()] == []
    await world.node.scalable.create(topic_name(SCALABLE))
    assert (await client.ask("BEGIN_STAGE", topic=SCALABLE, sink="s", batch=0)).beginStageResponse.stage


async def test_scalable_topic_is_made_as_for_producer(world: World) -> None:
    begun = await ours(world).ask("BEGIN_STAGE", topic=SCALABLE, sink="s", batch=0)
    assert begun.beginStageResponse.stage
    assert await world.node.scalable.read(topic_name(SCALABLE)) is not None


@pytest.mark.setup(scalableTopicsEnabled="false")
async def test_scalable_topic_is_refused_where_they_are_switched_off(world: World) -> None:
    answer = await ours(world).ask("BEGIN_STAGE", topic=SCALABLE, sink="s", batch=0)
    assert (answer.type, answer.error.error) == (_T.ERROR, pb.NotAllowedError)


async def test_query_with_new_checkpoint_and_old_sink_gets_remedy(world: World) -> None:
    client = ours(world)
    for run_of, batch in (("old/1", 0), ("old/1", 1)):
        begun = await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=batch, run=run_of)
        stage = begun.beginStageResponse.stage
        await client.ask("SEAL_STAGE", stage=stage)
        await client.ask("COMMIT_STAGES", topic=TOPIC, sink="s", batch=batch, stages=[stage])
    again = await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=1, run="old/2")
    assert (again.type, again.beginStageResponse.stage) == (_T.BEGIN_STAGE_RESPONSE, "")
    for batch in (0, 1):
        answer = await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=batch, run="new/1")
        assert (answer.type, answer.error.error) == (_T.ERROR, pb.NotAllowedError)
        assert "option sinkId" in answer.error.message


async def test_stage_is_invisible_and_not_recreated_by_late_task(world: World) -> None:
    client = ours(world)
    await client.produce()
    begun = (await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=0)).beginStageResponse
    listed = await client.ask("GET_TOPICS_OF_NAMESPACE", namespace="public/default")
    assert list(listed.getTopicsOfNamespaceResponse.topics) == [TOPIC]
    everything = world.node.catalogue.topics(namespace_name("public/default"), stages=True)
    assert sorted([name async for name in everything]) == sorted([TOPIC, begun.stage_topic])
    await world.node.sinks.forget(topic_name(TOPIC), "s")
    answer = await client.produce(9, topic=begun.stage_topic)
    assert (answer.type, answer.error.error) == (_T.ERROR, pb.TopicNotFound)


class Except:
    """Everybody may do everything, but publish to one topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def authenticate(self, method: str, data: bytes) -> str | None:
        return None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return (action, resource) != ("produce", self.topic)


async def test_role_without_publish_right_cannot_use_stages(world: World) -> None:
    client = ours(world)
    begun = (await client.ask("BEGIN_STAGE", topic=TOPIC, sink="s", batch=0)).beginStageResponse
    before = await world.node.sinks.find(topic_name(TOPIC), "s")
    world.node.access = Except(TOPIC)
    for kind, fields in (
        ("BEGIN_STAGE", {"topic": TOPIC, "sink": "s", "batch": 0}),
        ("SEAL_STAGE", {"stage": begun.stage}),
        ("RENEW_STAGE", {"stage": begun.stage}),
        ("DROP_STAGES", {"stages": [begun.stage]}),
        ("COMMIT_STAGES", {"topic": TOPIC, "sink": "s", "batch": 0, "stages": [begun.stage]}),
    ):
        answer = await client.ask(kind, **fields)
        assert (kind, answer.type, answer.error.error) == (kind, _T.ERROR, pb.AuthorizationError)
    assert await world.node.sinks.find(topic_name(TOPIC), "s") == before
    assert (await client.produce(topic=begun.stage_topic)).type == _T.PRODUCER_SUCCESS  # neither sealed nor dropped
