"""Checkpoint groups on a broker of its own process: members share the segments, and one checkpoint is everybody's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from magnetar import Checkpoint, DataLost, InitialPosition, NoMessage, aio, errors
from magnetar.layout.checkpoint import DONE, SegmentPosition
from tests.client.test_checkpoint import KEPT, in_order, number, opened, quiet, take
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("group"), KEPT) as running:
        yield running


async def shared(*members: aio.CheckpointConsumer[bytes], count: int, commit: int = 0) -> list[list[int]]:
    """So many messages in all, whoever gets them; each member says how far it is after so many of its own."""
    got: list[list[int]] = [[] for _ in members]

    async def read(member: aio.CheckpointConsumer[bytes], mine: list[int]) -> None:
        while sum(map(len, got)) < count:
            try:
                mine.append(number(await member.receive(0.2)))
            except NoMessage:
                if commit:
                    await member.checkpoint()
                continue
            if commit and not len(mine) % commit:
                await member.checkpoint()

    async with asyncio.timeout(60):
        await asyncio.gather(*(read(member, mine) for member, mine in zip(members, got, strict=True)))
    return got


async def until_both_have(*members: aio.CheckpointConsumer[bytes], segments: int) -> None:
    """A segment changes hands at a checkpoint of the one who had it."""
    async with asyncio.timeout(60):
        while any(len(member.segments) != segments for member in members):
            for member in members:
                await member.checkpoint()
            await asyncio.sleep(0.05)


async def test_members_share_segments_and_checkpoint_covers_all(server):
    async with opened(server, "group-shares", segments=4) as cluster:
        async with await cluster.reader(group="g") as one, await cluster.reader(group="g") as other:
            await until_both_have(one, other, segments=2)
            await cluster.send(80)
            got = await shared(one, other, count=80)
            assert sorted(got[0] + got[1]) == list(range(80))
            assert all(got)
            await one.checkpoint()
            kept = await other.checkpoint()
            assert sorted(kept.places) == [0, 1, 2, 3]
        await cluster.send(10)
        async with await cluster.reader(kept) as alone:  # a group's checkpoint is as good as any
            assert sorted(await take(alone, 10)) == list(range(80, 90))
        async with await cluster.reader(group="g") as back:  # and the group goes on there
            assert sorted(await take(back, 10)) == list(range(80, 90))


async def test_new_member_continues_at_position_of_previous_owner(server):
    async with opened(server, "group-joins", segments=4) as cluster:
        await cluster.send(40)
        async with await cluster.reader(group="g") as one:
            first = await take(one, 25)
            async with await cluster.reader(group="g") as other:
                await until_both_have(one, other, segments=2)
                got = await shared(one, other, count=15)
                assert sorted(first + got[0] + got[1]) == list(range(40))


async def test_unconfirmed_messages_of_lost_member_go_to_others(server):
    async with opened(server, "group-leaves") as cluster:
        await cluster.send(20)
        async with await cluster.reader(group="g") as one:
            said = await take(one, 8)
            await one.checkpoint()
            await take(one, 8)
        async with await cluster.reader(group="g") as other:
            assert sorted(said + await take(other, 12)) == list(range(20))


async def test_children_are_assigned_when_checkpoint_covers_parent(server):
    async with opened(server, "group-children") as cluster:
        await cluster.send(30)
        async with await cluster.reader(group="g") as one, await cluster.reader(group="g") as other:
            await cluster.admin.scalable.split(cluster.topic, 0)
            await cluster.send(30)
            got = await shared(one, other, count=30)
            assert sorted(got[0] + got[1]) == list(range(30))
            for member in (one, other):
                await quiet(member)
            rest = await shared(one, other, count=30, commit=1)
            assert sorted(rest[0] + rest[1]) == list(range(30, 60))
            assert all(in_order(before + after) for before, after in zip(got, rest, strict=True))
            await one.checkpoint()
            assert (await other.checkpoint()).places[0] == DONE  # type: ignore[index]


async def test_latest_applies_to_new_group_only(server):
    async with opened(server, "group-latest", segments=2) as cluster:
        await cluster.send(10)
        async with await cluster.reader(InitialPosition.LATEST, group="g"):
            pass
        await cluster.send(10)
        async with await cluster.reader(InitialPosition.LATEST, group="g") as back:
            assert sorted(await take(back, 10)) == list(range(10, 20))
            with pytest.raises(errors.Misuse, match="cannot seek its group"):
                await back.seek(InitialPosition.EARLIEST)


async def test_deletion_before_new_group_reads_is_error_or_gap(server):
    """As if it had been pruned: the checkpoint has a place in a segment that the topic does not list."""

    async with opened(server, "group-gap") as cluster:
        await cluster.send(5)
        async with await cluster.reader() as reader:
            kept = await reader.checkpoint()
        places = {**kept.places, 99: SegmentPosition(1, 2)}
        lost = Checkpoint(places, kept.epoch, kept.topic, kept.incarnation)  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(DataLost, match="deleted before they were read"):
                await cluster.reader(lost, group="g")
        gaps = []
        async with await cluster.reader(lost, group="g", on_gap=gaps.append) as one:
            assert [(gap.segment, gap.place) for gap in gaps] == [(99, SegmentPosition(1, 2))]
            assert sorted(await take(one, 5)) == list(range(5))
            await one.checkpoint()
        async with await cluster.reader(lost, group="g") as late:  # the group is behind it
            assert late.counters.gaps == 0


async def take_all(member: aio.CheckpointConsumer[bytes]) -> None:
    while True:
        await member.receive(60)


async def test_members_of_deleted_group_end_and_do_not_recreate_it(server):
    async with opened(server, "group-ended", segments=2) as cluster:
        await cluster.send(10)
        async with await cluster.reader(group="g") as one, await cluster.reader(group="g") as other:
            await cluster.client.release(cluster.topic, "g")
            for member in (one, other):
                with pytest.raises(errors.SubscriptionNotFound):
                    await take_all(member)
                with pytest.raises(errors.SubscriptionNotFound):
                    await member.checkpoint()
            assert not await cluster.admin.scalable.subscriptions(cluster.topic)


async def test_name_that_has_cursors_is_no_group(server):
    async with opened(server, "group-named") as cluster, await cluster.client.stream_consumer(cluster.topic, "s"):
        with pytest.raises(errors.MagnetarError):
            await cluster.reader(group="s")


@pytest.mark.slow
async def test_hold_of_group_is_renewed_while_member_is_connected(server):
    async with opened(server, "group-alive") as cluster:
        first = await cluster.client.hold(cluster.topic, "g", expires_s=3)
        async with await cluster.reader(group="g"):
            async with asyncio.timeout(60):
                until_ms = first.until_ms
                while until_ms <= first.until_ms + 1_500:
                    await asyncio.sleep(0.2)
                    until_ms = (await cluster.admin.holds.get(cluster.topic, "g")).untilMs


async def test_members_on_empty_reshaped_topic_report_no_loss(server):
    """H-R4: nothing was ever stored or deleted."""

    async with (
        opened(server, "group-empty", segments=2) as cluster,
        await cluster.reader(group="g") as one,
        await cluster.reader(group="g") as other,
    ):

        async def idle(member: aio.CheckpointConsumer[bytes]) -> None:
            while not over:
                with suppress(NoMessage):
                    await member.receive(0.05)
                await member.checkpoint()

        over = False
        idling = asyncio.gather(idle(one), idle(other))
        for _ in range(20):
            await cluster.reshape()
        over = True
        await idling
        await cluster.send(20)
        got = await shared(one, other, count=20, commit=1)
        assert sorted(got[0] + got[1]) == list(range(20))
