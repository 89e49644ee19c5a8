"""PRODUCER, SEND, CLOSE_PRODUCER: made once, closed at any moment, answered in order."""

from __future__ import annotations

import pytest

from magnetar.base.limits import NAME_BYTES_MAX
from magnetar.wire.proto import pb
from tests.unit.broker.world import TOPIC, World, an_entry, command, send_frame, settle
from tests.unit.topic.world import a_batch, the_chunks

_T = pb.BaseCommand
EXCLUSIVE, WAIT = pb.Exclusive, pb.WaitForExclusive


async def test_producer_without_name_gets_one_and_knows_nothing_of_past(world: World) -> None:
    client = world.client()
    first = (await client.produce(1)).producer_success
    second = (await client.produce(2)).producer_success
    assert first.producer_name
    assert first.producer_name != second.producer_name
    assert (first.last_sequence_id, first.producer_ready, first.schema_version) == (-1, True, b"")
    assert not first.HasField("topic_epoch")


@pytest.mark.parametrize("field", ["producer_name", "initial_subscription_name"])
async def test_producer_name_above_limit_is_refused_without_effect(world: World, field: str) -> None:
    client = world.client()
    given = {field: "n" * (NAME_BYTES_MAX + 1)}
    answer = (await client.produce(1, **given)).error
    assert answer.error == pb.NotAllowedError
    assert str(NAME_BYTES_MAX) in answer.message
    assert world.loaded() is None
    given = {field: "n" * NAME_BYTES_MAX}
    assert (await client.produce(1, **given)).HasField("producer_success")


async def test_names_are_not_given_twice_over_lives_of_broker(world: World) -> None:
    names: list[str] = []

    names.append((await world.client().produce()).producer_success.producer_name)
    life = await world.node._begin_life()
    assert not names[0].startswith(f"{life}-")


@pytest.mark.setup(brokerDeduplicationEnabled="true")
async def test_largest_sequence_id_fits_answer(world: World) -> None:
    client = world.client()
    await client.produce(producer_name="p")
    client.send(2**64 - 2)
    await settle()
    assert len(client.heard.receipts) == 1
    client.request("CLOSE_PRODUCER", producer_id=1)
    await settle()
    again = await client.produce(2, producer_name="p")
    assert again.producer_success.last_sequence_id == 2**63 - 1


async def test_sends_are_answered_in_order_with_damaged_one_between_them(world: World) -> None:
    client = world.client()
    await client.produce()
    world.ledgers.hold()
    damaged = bytearray(send_frame(1, 1, an_entry("b", 1)))
    damaged[-1] ^= 1
    client.say(send_frame(1, 0, an_entry("a")) + bytes(damaged) + send_frame(1, 2, an_entry("c", 2)))
    await settle()
    assert client.heard.answered == []
    world.ledgers.release()
    await settle()
    assert client.heard.answered == [(0, None), (1, pb.ChecksumError), (2, None)]
    assert not client.wire.closing


async def test_damaged_send_alone_is_answered_at_once(world: World) -> None:
    client = world.client()
    await client.produce()
    damaged = bytearray(send_frame(1, 0, an_entry("b")))
    damaged[-1] ^= 1
    client.say(bytes(damaged))
    assert client.heard.answered == [(0, pb.ChecksumError)]


@pytest.mark.parametrize(
    "fields", [{"txnid_least_bits": 1, "txnid_most_bits": 0}, {"marker": True}], ids=["transaction", "marker"]
)
async def test_sends_that_are_not_built_are_refused_one_by_one(world: World, fields: dict[str, object]) -> None:
    client = world.client()
    await client.produce()
    client.say(
        send_frame(1, 0, an_entry("a")) + send_frame(1, 1, an_entry("b"), **fields) + send_frame(1, 2, an_entry("c"))
    )
    await settle()
    assert client.heard.answered == [(0, None), (1, pb.NotAllowedError), (2, None)]


async def test_several_producers_in_one_read_keep_their_own_order(world: World) -> None:
    client = world.client()
    await client.produce(1)
    await client.produce(2)
    client.say(b"".join(send_frame(1 + n % 2, n, an_entry(str(n), n)) for n in range(6)))
    await settle()
    said = [one.send_receipt for one in client.heard.of(_T.SEND_RECEIPT)]
    assert [one.sequence_id for one in said if one.producer_id == 1] == [0, 2, 4]
    assert [one.sequence_id for one in said if one.producer_id == 2] == [1, 3, 5]


async def test_chunks_get_receipt_each(world: World) -> None:
    client = world.client()
    await client.produce()
    for piece in the_chunks("abcdef", 3):
        client.say(send_frame(1, 0, piece, is_chunk=True))
    await settle()
    assert [one.sequence for one in client.heard.receipts] == [0, 0, 0]


async def test_send_of_producer_nobody_made_ends_connection(world: World) -> None:
    client = world.client()
    client.send(0, producer_id=9)
    assert client.wire.aborted


async def test_sends_behind_close_are_ignored(world: World) -> None:
    client = world.client()
    await client.produce()
    request = client.request("CLOSE_PRODUCER", producer_id=1)
    client.send(0)
    await settle()
    assert client.answers(request)[0].type == _T.SUCCESS
    assert client.heard.answered == []
    assert not client.wire.closing


async def test_close_is_answered_after_sends_before_it(world: World) -> None:
    client = world.client()
    await client.produce()
    world.ledgers.hold()
    client.send(0)
    request = client.request("CLOSE_PRODUCER", producer_id=1)
    await settle()
    assert client.answers(request) == []
    world.ledgers.release()
    await settle()
    assert client.heard.kinds[-2:] == ["SEND_RECEIPT", "SUCCESS"]
    assert len((await world.topic()).producers) == 0


async def test_closing_what_is_not_there_succeeds(world: World) -> None:
    assert (await world.client().ask("CLOSE_PRODUCER", producer_id=77)).type == _T.SUCCESS


async def test_same_producer_asked_for_twice_is_one_producer(world: World) -> None:
    client = world.client()
    first = await client.produce(1, producer_name="p")
    second = await client.produce(1, producer_name="p")
    assert first.producer_success.producer_name == second.producer_success.producer_name
    assert len((await world.topic()).producers) == 1


async def test_repeated_producer_request_during_creation_is_told_to_retry(world: World) -> None:
    client = world.client()
    world.metadata.hold()
    first = client.request("PRODUCER", topic=TOPIC, producer_id=1)
    second = client.request("PRODUCER", topic=TOPIC, producer_id=1, epoch=1)
    await settle()
    assert client.answers(second)[0].error.error == pb.ServiceNotReady
    world.metadata.release()
    await settle()
    assert client.answers(first)[0].type == _T.PRODUCER_SUCCESS


async def test_higher_epoch_replaces_producer_on_its_connection(world: World) -> None:
    client = world.client()
    await client.produce(1, producer_name="p", producer_access_mode=EXCLUSIVE)
    again = await client.produce(1, producer_name="p", producer_access_mode=EXCLUSIVE, epoch=1)
    assert again.type == _T.PRODUCER_SUCCESS
    assert again.producer_success.topic_epoch == 0
    client.send(0)
    await settle()
    assert [one.sequence for one in client.heard.receipts] == [0]


async def test_command_without_what_it_needs_ends_connection(world: World) -> None:
    client = world.client()
    said = command("PRODUCER", producer_id=1, request_id=1)
    client.wire.feed(
        (lambda body: (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body)(
            said.SerializePartialToString()
        )
    )
    assert client.wire.aborted


async def test_false_count_of_batch_is_refused_and_costs_only_itself(world: World) -> None:
    """D16"""

    client = world.client()
    await client.produce()
    await client.subscribe(permits=1_000)
    count = 2**31 - 1
    false = send_frame(1, 1, an_entry("b", 1, num_messages_in_batch=count), num_messages=count)
    batch = send_frame(1, 3, a_batch(["d", "e"], 3), num_messages=2)
    client.say(send_frame(1, 0, an_entry("a")) + false + send_frame(1, 2, an_entry("c", 2)) + batch)
    await settle()
    assert client.heard.answered == [(0, None), (1, pb.NotAllowedError), (2, None), (3, None)]
    assert len(client.heard.of(_T.MESSAGE)) == 3
    [consumer] = client.connection.consumers.values()
    assert consumer.permits == 1_000 - 4
    client.say(false)
    await settle()
    assert client.heard.answered[-1] == (1, pb.NotAllowedError)
    assert client.connection._pending_bytes == 0


@pytest.mark.setup(maxTopicsPerNamespace="2")
async def test_topic_beyond_limit_of_its_namespace_is_not_allowed(world: World) -> None:
    client = world.client()
    for number in range(2):
        made = await client.produce(number, f"persistent://public/default/few-{number}")
        assert made.HasField("producer_success")
    answer = (await client.produce(2, "persistent://public/default/few-2")).error
    assert (answer.error, answer.message) == (pb.NotAllowedError, "Exceed maximum number of topics in namespace.")
    assert (await client.produce(3, "persistent://public/default/few-0")).HasField("producer_success")
