"""A plain topic becomes a scalable one: under traffic, with its subscriptions, whoever dies at whatever step."""

from __future__ import annotations

import pytest

from magnetar.base.errors import AlreadyExists, Conflict, Misuse, TopicNotFound
from magnetar.base.names import TopicName, topic_name
from magnetar.broker.migration.migration import migrate, plain_of, preview
from magnetar.broker.segments.cursors import life
from magnetar.scalable.record.record import Kind, Record
from magnetar.scalable.record.subscription import Type
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client, an_entry, send_frame, settle
from tests.unit.scalable.world import KEYS, NAME, Cluster, Writer, run, spawn

PLAIN = topic_name("persistent://public/default/orders")
FOLLOWS = [{"key": "__pulsar.v5.managed", "value": "true"}]


def migrated(record: Record) -> bool:
    return record.intent is None and not record.is_plain


async def prepared(cluster: Cluster, partitions: int) -> Writer:
    """The topic, with something in it for each key, and two subscriptions of clients that know no types."""
    catalogue = cluster.living[0].node.catalogue
    if partitions:
        await catalogue.create_partitioned(PLAIN, partitions)
    else:
        await catalogue.create(PLAIN)
    await cluster.living[0].node.segments.plains.stand_in(PLAIN)
    writer = Writer(cluster)
    for one in (await cluster.record()).layout.active:
        name = one.topic(NAME)
        client = Client((await cluster.owner(name)).node).connect()
        for id, subscription in enumerate(["audit", "billing"]):
            assert (await client.subscribe(id, topic=str(name), subscription=subscription)).HasField("success")
        client.lose()
    for key in KEYS:
        await writer.send(key)
    return writer


async def test_subscription_is_carried_over_where_it_stands(cluster: Cluster) -> None:
    writer = await prepared(cluster, 0)
    topic = await (await cluster.owner(PLAIN)).segment(PLAIN)
    audit = topic.subscriptions.get("audit")
    assert audit is not None
    audit.ack(None, [(topic.managed.first, None)])
    await migrate(cluster.living[0].node, PLAIN, force=True)
    await writer.send(KEYS[0])
    backlogs = await cursors(cluster)
    assert [one["audit"] for one in backlogs.values()] == [len(KEYS) - 1, 1]
    assert [one["billing"] for one in backlogs.values()] == [len(KEYS), 1]
    writer.close()


async def cursors(cluster: Cluster) -> dict[int, dict[str, int]]:
    """The backlog of every durable cursor, by segment."""
    found: dict[int, dict[str, int]] = {}
    for one in (await cluster.record()).layout.segments:
        topic = await (await cluster.owner(one.topic(NAME))).segment(one.topic(NAME))
        assert all(life(each) >= 0 for each in topic.subscriptions), "each is of a subscription of the topic"
        found[one.id] = {each.name: each.backlog for each in topic.subscriptions}
    return found


@pytest.mark.parametrize("partitions", [0, 3])
async def test_migration_under_writer_keeps_key_order_and_subscriptions(cluster: Cluster, partitions: int) -> None:
    writer = await prepared(cluster, partitions)
    seen = await preview(cluster.living[0].node, PLAIN)
    assert ([one.name for one in seen.subscriptions], seen.messages) == (["audit", "billing"], len(KEYS))
    work = spawn(migrate(cluster.living[0].node, PLAIN, force=True))
    for _ in range(3):
        for key in KEYS:
            await writer.send(key)
    operation = await work
    assert operation.kind == "MIGRATE"
    record = await cluster.record()
    assert migrated(record)
    count = max(partitions, 1)
    assert [bool(one.legacy_topic) for one in record.layout.segments] == [True] * count + [False] * count
    assert {one.buckets for one in record.layout.active} == {max(4 // count, 1)}, "the topic's budget, shared out"
    for key in KEYS:
        await writer.send(key)
    assert await cluster.contents() == writer.sent
    backlogs = await cursors(cluster)
    for name in ("audit", "billing"):
        assert sum(one[name] for one in backlogs.values()) == 5 * len(KEYS), "nothing was skipped"
    writer.close()


STEPS = [
    "reshape.intended",
    "plain.guarded",
    "subscription.write",
    "subscription.cursors",
    "subscription.done",
    "migration.carried",
    "reshape.child_provisioned",
    "reshape.provisioned",
    "reshape.checked",
    "reshape.parent_sealed",
    "reshape.sealed",
    "reshape.committed",
]


QUICK = ("plain.guarded", "migration.carried", "reshape.sealed")  # the others wait for the slow tests


@pytest.mark.parametrize("step", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in STEPS])
@pytest.mark.setup(brokers=2)
async def test_migration_of_dead_leader_is_finished_by_next(cluster: Cluster, step: str) -> None:
    writer = await prepared(cluster, 2)
    leader = cluster.living[0]
    reached = 0

    def told(name: str, facts: dict[str, object]) -> None:
        nonlocal reached
        if name == step and not reached:
            reached += 1
            leader.kill()

    for member in cluster.members:  # the step may be the owner's
        member.runtime.told = told
    work = spawn(migrate(leader.node, PLAIN, force=True))
    for _ in range(20):
        await settle()
    await cluster.until(migrated)
    assert reached
    work.cancel()
    for key in KEYS:
        await writer.send(key)
    assert await cluster.contents() == writer.sent
    backlogs = await cursors(cluster)
    for name in ("audit", "billing"):
        assert sum(one[name] for one in backlogs.values()) == 2 * len(KEYS)
    writer.close()


async def test_subscription_created_during_migration_belongs_to_scalable_topic(
    cluster: Cluster,
) -> None:
    await prepared(cluster, 0)
    member = cluster.living[0]
    client = Client(member.node).connect()
    late: list[object] = []

    def told(name: str, facts: dict[str, object]) -> None:
        if name == "reshape.checked":  # the cursors of the new segments were made, the plain topic is not sealed
            late.append(spawn(client.subscribe(9, topic=str(PLAIN), subscription="late")))

    member.runtime.told = told
    await migrate(member.node, PLAIN, force=True)
    for _ in range(5):
        await settle()
    assert late
    assert "late" in {one.name for one in await member.service.subscriptions(NAME)}
    assert all("late" in one for one in (await cursors(cluster)).values()), "on every segment, the new ones too"


async def test_attached_or_first_consumer_decides_type_of_subscription(
    cluster: Cluster,
) -> None:
    (await prepared(cluster, 0)).close()
    member = cluster.living[0]
    client = Client(member.node).connect()
    exclusive = pb.CommandSubscribe.Exclusive
    await client.subscribe(1, topic=str(PLAIN), subscription="ledger", subType=exclusive, metadata=FOLLOWS)
    await migrate(member.node, PLAIN, force=False)
    found = {one.name: (one.type, one.undecided) for one in await member.service.subscriptions(NAME)}
    assert found == {
        "audit": (Type.QUEUE, True),
        "billing": (Type.QUEUE, True),
        "ledger": (Type.STREAM, False),
    }
    await member.service.subscribe(NAME, "audit", Type.STREAM, earliest=False)
    with pytest.raises(AlreadyExists):
        await member.service.subscribe(NAME, "audit", Type.QUEUE, earliest=True)
    backlogs = await cursors(cluster)
    assert backlogs[0]["audit"] == len(KEYS), "where it starts was said long ago"
    shared = Client(member.node).connect()
    assert (await shared.subscribe(2, topic=str(PLAIN), subscription="audit")).HasField("error")
    assert (await shared.subscribe(3, topic=str(PLAIN), subscription="billing")).HasField("success")
    assert (await shared.subscribe(4, topic=str(PLAIN), subscription="nobody", force_topic_creation=False)).HasField(
        "error"
    )
    with pytest.raises(AlreadyExists):
        await member.service.subscribe(NAME, "billing", Type.STREAM, earliest=True)


async def test_stranded_clients_are_named_unless_forced(cluster: Cluster) -> None:
    (await prepared(cluster, 0)).close()
    node = cluster.living[0].node
    client = Client(node).connect(client_version="Pulsar-Java-v4.1.0")
    await client.produce(1, topic=str(PLAIN), producer_name="old", metadata=FOLLOWS)
    await client.produce(2, topic=str(PLAIN), producer_name="older")
    with pytest.raises(
        Conflict, match=r"producer older at .*Java-v4\.1\.0.*or force the migration: their producers are then"
    ) as refused:
        await migrate(node, PLAIN, force=False)
    assert refused.value.http_status == 409
    record = await cluster.record()
    assert record.is_plain
    assert record.intent is None
    await migrate(node, PLAIN, force=True)
    said = await client.produce(3, topic=str(PLAIN), producer_name="older")
    assert said.error.error == pb.TopicTerminatedError
    assert str(NAME) in said.error.message, "it is told where to go"
    assert [one.close_producer.producer_id for one, _ in client.heard.heard if one.HasField("close_producer")] == [
        1,
        2,
    ]


async def test_what_is_no_plain_topic_is_not_migrated(cluster: Cluster) -> None:
    node = cluster.living[0].node
    with pytest.raises(TopicNotFound):
        await migrate(node, PLAIN, force=True)
    await prepared(cluster, 0)
    for wrong in ("non-persistent://public/default/orders", "persistent://public/default/orders-partition-0"):
        with pytest.raises(Misuse):
            plain_of(topic_name(wrong))
    await migrate(node, NAME, force=True)
    with pytest.raises(AlreadyExists):
        await migrate(node, PLAIN, force=True)
    with pytest.raises(AlreadyExists):
        await preview(node, PLAIN)


async def test_name_of_deleted_migrated_topic_is_free(cluster: Cluster) -> None:
    writer = await prepared(cluster, 2)
    writer.close()
    node = cluster.living[0].node
    await migrate(node, PLAIN, force=True)
    await node.scalable.delete(NAME, force=True)
    assert await node.catalogue.partitioned(PLAIN) is None
    for part in range(2):
        assert not await node.catalogue.exists(PLAIN.partition(part)), "nothing is left behind"
    await node.catalogue.create(PLAIN)
    record = await node.segments.plains.stand_in(PLAIN)
    assert record.is_plain
    assert await node.scalable.subscriptions(NAME) == []


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_message_repeated_across_migration_is_stored_once(cluster: Cluster) -> None:
    node = cluster.living[0].node
    await node.catalogue.create(PLAIN)
    client = Client(node).connect()

    async def send(id: int, sequence: int, name: str = "p") -> bool:
        body = an_entry(f"={sequence}", sequence, producer=name, partition_key="k")
        client.heard.heard.clear()
        client.say(send_frame(id, sequence, body))
        await settle()
        return client.heard.heard[-1][0].send_receipt.message_id.ledgerId < 2**63

    await cluster.owner(PLAIN)
    await client.produce(1, topic=str(PLAIN), producer_name="p")
    assert await send(1, 7)
    await migrate(node, PLAIN, force=True)
    (one,) = (await cluster.record()).layout.active
    made = await client.produce(2, topic=str(one.topic(NAME)), producer_name=f"p-seg-{one.id}")
    assert made.producer_success.last_sequence_id == 7
    assert not await send(2, 7, f"p-seg-{one.id}")
    assert await send(2, 8, f"p-seg-{one.id}")


async def test_record_says_that_topic_was_migrated(cluster: Cluster) -> None:
    await prepared(cluster, 0)
    await migrate(cluster.living[0].node, PLAIN, force=True, reason="larger")
    past = (await cluster.record()).history[-1]
    assert (past.kind, past.reason, past.parents, past.children) == (Kind.MIGRATE, "larger", (0,), (1,))
    names: list[TopicName] = await cluster.living[0].service.names("public/default")
    assert names == [NAME]


@pytest.mark.slow
@pytest.mark.parametrize("happened", [True, False])
def test_migration_survives_loss_of_any_broker_call(happened: bool):
    """Each in turn, on its way or on its way back, and its first repetition too."""
    for losing in range(60):
        lost = 0

        async def body(cluster: Cluster, losing: int = losing) -> None:
            nonlocal lost
            writer = await prepared(cluster, 2)
            for member in cluster.members:
                member.carrier.happened = happened
                member.carrier.losing = losing
            work = spawn(migrate(cluster.living[0].node, PLAIN, force=True))
            await cluster.until(lambda record: migrated(record) or work.done())
            lost = sum(member.carrier.lost for member in cluster.members)
            for member in cluster.members:
                member.carrier.losing = None
            if work.done() and work.exception() is not None:  # lost while it was looked at: nothing was begun
                assert (await cluster.record()).is_plain
                await migrate(cluster.living[0].node, PLAIN, force=True)
            for key in KEYS:
                await writer.send(key)
            assert await cluster.contents() == writer.sent
            backlogs = await cursors(cluster)
            for name in ("audit", "billing"):
                assert sum(one[name] for one in backlogs.values()) == 2 * len(KEYS)
            writer.close()

        run(body, brokers=2)
        if not lost:
            assert losing > 10, "no call was lost at all"
            return
