"""Scalable topics switched off for a while: refused, untouched, and all back."""

from __future__ import annotations

from magnetar.scalable.service import SubscriptionKind
from magnetar.wire.proto import pb
from tests.unit.broker.world import Client
from tests.unit.scalable.world import KEYS, NAME, Cluster, Member, Writer, pass_s


async def test_temporarily_disabled_topics_are_untouched_and_return(cluster: Cluster) -> None:
    first = cluster.members[0]
    await first.service.create(NAME, segments=2)
    await first.service.subscribe(NAME, "s", SubscriptionKind.STREAM, earliest=True)
    writer = Writer(cluster)
    for key in KEYS:
        await writer.send(key)
    await first.service.split(NAME, 0)
    before = await cluster.contents()
    writer.close()
    await first.node.stop()
    first.dead = True
    cluster.settings["scalableTopicEnabled"] = "false"  # the other name of the key
    off = await cluster.join()
    kept = stored(off)
    client = Client(off.node).connect()
    assert not client.heard.heard[0][0].connected.feature_flags.supports_scalable_topics
    segment = "segment://public/default/orders/8000-ffff-1"
    for said in (
        await client.ask("PRODUCER", topic=segment, producer_id=1, producer_name="p"),
        await client.subscribe(topic=segment),
        await client.subscribe(topic=str(NAME)),
    ):
        assert said.error.error == pb.NotAllowedError, said
    await pass_s(4000)  # housekeeping, visits, sweeps
    assert stored(off) == kept
    client.lose()
    await off.node.stop()
    off.dead = True
    cluster.settings["scalableTopicEnabled"] = "true"
    on = await cluster.join()
    assert await cluster.contents() == before
    assert [one.name for one in await on.service.subscriptions(NAME)] == ["s"]
    await on.service.split(NAME, 1)


def stored(member: Member) -> dict[str, bytes]:
    """All that belongs to the topic and its segments."""
    records = member.metadata.content.records.items()
    return {path: found.value for path, found in records if "/topics/" in path or "/segment/" in path}
