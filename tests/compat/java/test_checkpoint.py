"""The checkpoint consumers of the real Java client of scalable topics (5.0.0-M1) on our broker, by the rows of its own
suite (C01 to C16), and checkpoints that go from one client to the other.

That client opens all segments at once, and leaves out of a checkpoint what it has not read: across a split its order is
its own, and it begins segments that a checkpoint does not name at their first message. Only what it promises is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar import DataLost, String, aio
from magnetar.base.names import segment_name, topic_name
from magnetar.base.ranges import FULL
from magnetar.layout.checkpoint import Loss
from magnetar.metadata import paths
from magnetar.metadata.embedded import EmbeddedStore
from magnetar.runtime.system_runtime import RealRuntime
from tests.client.test_checkpoint import KEPT
from tests.compat.java.conftest import SETTINGS
from tests.compat.java.driver import V5
from tests.compat.java.test_v5 import check, create, full, merge, split
from tests.servers.standalone import Standalone

pytestmark = [pytest.mark.slow]

LONG_MS = 30_000  # for what must come
SHORT_MS = 1_500  # for what must not


@pytest.fixture(scope="module")
def scalable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Readers leave no trace: what they have not read is kept by policy."""
    with Standalone(tmp_path_factory.mktemp("checkpoints"), {**SETTINGS, **KEPT}) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return request.node.name.split("_")[1].replace("[", "-").strip("]")


def take(client: V5, name: str, count: int, idle_ms: int = LONG_MS) -> list[str]:
    return client.ask("checkpoint-read", name, count, idle_ms).split()


def nothing(client: V5, name: str) -> None:
    assert take(client, name, 1, SHORT_MS) == []


def produce(client: V5, topic: str, count: int, *, first: int = 0) -> None:
    if not first:
        client.ask("producer", "p", full(topic))
    client.ask("load", "p", 8, count, first)
    assert client.ask("wait", "p") == str(count)


def everything(*parts: list[str]) -> list[str]:
    return sorted(value for part in parts for value in part)


def sent(count: int, first: int = 0) -> list[str]:
    return sorted(f"k{number % 8}:{number // 8}" for number in range(first, count))


def test_c01_c05_all_from_earliest_in_order_and_then_nothing(scalable, v5, name):
    create(scalable, name)
    client = v5()
    produce(client, name, 100)
    client.ask("checkpoint", "c", full(name), "earliest")
    check(take(client, "c", 100), 8, 100)
    nothing(client, "c")
    assert client.ask("checkpoint-topic", "c") == full(name)


def test_c02_latest_skips_what_was_there(scalable, v5, name):
    create(scalable, name, 2)
    client = v5()
    produce(client, name, 40)
    client.ask("checkpoint", "c", full(name), "latest")
    produce(client, name, 40, first=40)
    assert everything(take(client, "c", 40)) == sent(80, 40)
    nothing(client, "c")


def test_c03_c04_checkpoint_as_bytes_resumes_at_next_message(scalable, v5, name):
    create(scalable, name)
    client = v5()
    produce(client, name, 100)
    client.ask("checkpoint", "c", full(name), "earliest")
    first = take(client, "c", 40)
    kept = client.ask("checkpoint-keep", "c")
    client.ask("checkpoint-close", "c")
    client.ask("checkpoint", "d", full(name), kept)
    check(first + take(client, "d", 60), 8, 100)
    nothing(client, "d")


def test_c06_c12_asynchronous_face_and_batches(scalable, v5, name):
    create(scalable, name)
    client = v5()
    produce(client, name, 60)
    client.ask("checkpoint", "c", full(name), "earliest")
    first = client.ask("checkpoint-async", "c", 20, LONG_MS).split()
    second = client.ask("checkpoint-multi", "c", 10, LONG_MS).split()
    assert len(second) == 10
    kept = client.ask("checkpoint-keep-async", "c")
    client.ask("checkpoint", "d", full(name), kept)
    check(first + second + take(client, "d", 30), 8, 60)


@pytest.mark.parametrize("group", ["", "g"], ids=["alone", "grouped"])
@pytest.mark.parametrize("splits", [1, 2])
def test_c07_everything_of_sealed_and_active_segments_is_read(scalable, v5, name, splits, group):
    name = f"{name}-{splits}-{group}"
    create(scalable, name)
    client = v5()
    produce(client, name, 40)
    for turn in range(splits):
        split(scalable, name, turn)
        produce(client, name, 40, first=40 * (turn + 1))
    client.ask("checkpoint", "c", full(name), "earliest", *([group] if group else []))
    count = 40 * (splits + 1)
    assert everything(take(client, "c", count)) == sent(count)
    nothing(client, "c")


def test_c08_members_of_group_share_segments(scalable, v5, name):
    create(scalable, name, 4)
    one, other = v5(), v5()
    one.ask("checkpoint", "a", full(name), "earliest", "g")
    other.ask("checkpoint", "b", full(name), "earliest", "g")
    produce(one, name, 200)
    first: list[str] = []
    second: list[str] = []
    for _ in range(60):
        first += take(one, "a", 200, 500)
        second += take(other, "b", 200, 500)
        if len({*first, *second}) == 200:
            break
    assert first
    assert second
    # What goes to a segment while it changes hands may come to both: this client is not asked to let go first.
    assert sorted({*first, *second}) == sent(200)


def test_c09_second_member_takes_part_of_segments(scalable, v5, name):
    create(scalable, name, 4)
    one, other = v5(), v5()
    one.ask("checkpoint", "a", full(name), "earliest", "g")
    produce(one, name, 80)
    assert everything(take(one, "a", 80)) == sent(80)
    other.ask("checkpoint", "b", full(name), "latest", "g")
    got: list[str] = []
    for turn in range(20):  # until a message goes to a segment that is the second one's
        produce(one, name, 40, first=80 + 40 * turn)
        got = take(other, "b", 40, 500)
        if got:
            break
    assert got


def test_c10_checkpoint_of_group_holds_its_own_positions_only(scalable, v5, name):
    create(scalable, name)
    client = v5()
    produce(client, name, 60)
    client.ask("checkpoint", "a", full(name), "earliest", "g")
    first = take(client, "a", 20)
    kept = client.ask("checkpoint-keep", "a")
    client.ask("checkpoint-close", "a")
    again = v5()
    again.ask("checkpoint", "b", full(name), kept, "other")
    check(first + take(again, "b", 40), 8, 60)


def test_c11_nobody_is_listed_after_all_members_are_gone(scalable, v5, name):
    create(scalable, name, 2)
    client = v5()
    client.ask("checkpoint", "a", full(name), "earliest", "g")
    client.__exit__(None, None, None)

    async def gone() -> None:
        async with asyncio.timeout(60), aio.Admin(scalable.http) as admin:
            while True:
                stats = await admin.scalable.stats(full(name))
                if all(not one.consumers for one in stats.subscriptions.values()):
                    return
                await asyncio.sleep(0.2)

    asyncio.run(gone())


@pytest.mark.parametrize("merged", [False, True], ids=["split", "merge"])
def test_c13_c14_checkpoint_resumes_across_reshape(scalable, v5, name, merged):
    name = f"{name}-{merged}"
    create(scalable, name, 2 if merged else 1)
    client = v5()
    produce(client, name, 60)
    client.ask("checkpoint", "c", full(name), "earliest")
    first = take(client, "c", 30)
    kept = client.ask("checkpoint-keep", "c")
    client.ask("checkpoint-close", "c")
    merge(scalable, name, 0, 1) if merged else split(scalable, name, 0)
    produce(client, name, 60, first=60)
    client.ask("checkpoint", "d", full(name), kept)
    assert everything(first, take(client, "d", 90)) == sent(120)
    nothing(client, "d")


def test_c15_segment_of_missing_topic_is_reported_by_our_client(scalable, v5, name):
    """Nobody can take it away (409), so it is taken from the store: of a segment that the record lists and that is not
    there this client says nothing, as its suite wants it, and ours does."""
    create(scalable, name)
    asyncio.run(stored(scalable.url, full(name), range(40)))
    split(scalable, name, 0)
    asyncio.run(stored(scalable.url, full(name), range(40, 80)))
    segment = segment_name(topic_name(full(name)), FULL, 0)
    answer = scalable.ask("DELETE", f"/admin/v2/segments/{segment.namespace}/{name}/{segment.segment}")
    assert answer.status_code == 409, answer.text
    scalable.stop()
    asyncio.run(forgotten(scalable.data, paths.topic(segment, 1)))
    scalable.start()

    client = v5()
    client.ask("checkpoint", "c", full(name), "earliest")
    assert everything(take(client, "c", 40)) == sent(80, 40)
    nothing(client, "c")

    async def ours(gaps: list[Loss] | None) -> list[str]:
        told = {} if gaps is None else {"on_gap": gaps.append}
        async with aio.Client(scalable.url) as mine, await mine.checkpoint_consumer(full(name), **told) as reader:
            return [(await reader.receive(LONG_MS / 1000)).data.decode() for _ in range(40)]

    with pytest.raises(DataLost):
        asyncio.run(ours(None))
    gaps: list[Loss] = []
    assert everything(asyncio.run(ours(gaps))) == sent(80, 40)
    assert [gap.segment for gap in gaps] == [0]


async def stored(url: str, topic: str, numbers: range) -> None:
    async with aio.Client(url) as mine, await mine.create_producer(topic, schema=String()) as producer:
        for number in numbers:
            await producer.send(f"k{number % 8}:{number // 8}", key=f"k{number % 8}")


async def forgotten(data: Path, path: str) -> None:
    runtime = RealRuntime()
    store = await EmbeddedStore.open(str(data / "metadata.db"), runtime)
    assert await store.exists(path)
    await store.delete_tree(path)
    await store.close()
    runtime.close()


def test_c16_consumers_without_group_each_see_all(scalable, v5, name):
    create(scalable, name, 2)
    client = v5()
    produce(client, name, 40)
    for reader in ("a", "b"):
        client.ask("checkpoint", reader, full(name), "earliest")
    for reader in ("a", "b"):
        assert everything(take(client, reader, 40)) == sent(40)


def test_checkpoints_go_from_one_client_to_other(scalable, v5, name):
    """Ours says that a segment is done in words that the Java client understands, and what that one writes is read."""
    create(scalable, name)
    client = v5()
    produce(client, name, 40)
    split(scalable, name, 0)
    produce(client, name, 40, first=40)

    async def ours(start: bytes | None, count: int) -> tuple[list[str], bytes]:
        async with aio.Client(scalable.url) as mine:
            options = () if start is None else (start,)
            async with await mine.checkpoint_consumer(full(name), *options) as reader:
                got = [(await reader.receive(30)).data.decode() for _ in range(count)]
                return got, (await reader.checkpoint()).to_bytes()

    first, kept = asyncio.run(ours(None, 50))
    client.ask("checkpoint", "c", full(name), kept.hex())
    rest = take(client, "c", 30)
    assert everything(first, rest) == sent(80)
    nothing(client, "c")
    back = client.ask("checkpoint-keep", "c")
    produce(client, name, 8, first=80)
    assert everything(asyncio.run(ours(bytes.fromhex(back), 8))[0]) == sent(88, 80)
