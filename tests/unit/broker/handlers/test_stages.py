"""Stages over the wire: only for peers that announced our extensions, each call with its answer or a sentence."""

from __future__ import annotations

from magnetar.base.names import namespace_name, topic_name
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, Client, World, run

_T = pb.BaseCommand


def ours(world: World) -> Client:
    return world.client(feature_flags={"magnetar_extensions": 1})


def test_a_stage_is_begun_written_sealed_and_committed() -> None:
    async def story(world: World) -> None:
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

    run(story)


def test_those_who_announced_nothing_are_refused() -> None:
    async def story(world: World) -> None:
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

    run(story)


def test_what_cannot_be_is_refused_with_a_sentence() -> None:
    async def story(world: World) -> None:
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

    run(story)


def test_a_stage_is_seen_by_nobody_and_does_not_come_back_for_a_task_that_writes_on() -> None:
    async def story(world: World) -> None:
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

    run(story)


class Except:
    """Everybody may do everything, but publish to one topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def authenticate(self, method: str, data: bytes) -> str | None:
        return None

    def allowed(self, principal: str | None, action: str, resource: str) -> bool:
        return (action, resource) != ("produce", self.topic)


def test_who_may_not_publish_to_the_topic_does_nothing_with_its_stages() -> None:
    async def story(world: World) -> None:
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

    run(story)
