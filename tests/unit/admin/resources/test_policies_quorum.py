"""The policy `persistence`: new ledgers have its quorum where the store keeps copies; one copy refuses more."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.ledger.store import Quorum
from simulation.stores.ledgers import MemoryLedgers
from tests.unit.admin.world import World, a_world, recorded

pytestmark = pytest.mark.real_clock

ONE = "/admin/v2/namespaces/public/default"
PATH = f"{ONE}/persistence"
TOPIC = "persistent://public/default/t"
TWO = {
    "bookkeeperEnsemble": 2,
    "bookkeeperWriteQuorum": 2,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 1.5,
}


def stores_of(world: World, copies_max: int) -> MemoryLedgers:
    ledgers = world.node.ledgers
    assert isinstance(ledgers, MemoryLedgers)
    ledgers.copies_max = copies_max
    return ledgers


def quorums(ledgers: MemoryLedgers, component: str) -> list[Quorum | None]:
    stored = ledgers.memory.ledgers.values()
    return [ledger.quorum for ledger in stored if ledger.custom["component"] == component]


async def test_new_ledgers_have_quorum_of_policy() -> None:
    async with a_world() as world:
        ledgers = stores_of(world, 3)
        await world.store(TOPIC, b"entry")
        assert quorums(ledgers, "managed-ledger") == [None]
        await world.do("POST", PATH, TWO)
        assert await world.get(PATH) == TWO
        topic = await world.topic(TOPIC)
        assert topic.settings.quorum == topic.managed.quorum == Quorum(2, 2, 1)
        await world.node.topics.unload(topic.name)
        await world.store(TOPIC, b"entry")
        assert quorums(ledgers, "managed-ledger") == [None, Quorum(2, 2, 1)]
        await world.do("DELETE", PATH)
        assert (await world.ask("GET", PATH)).body == b""
        assert (await world.topic(TOPIC)).managed.quorum is None


async def test_ledgers_of_deduplication_and_cursors_have_same_quorum() -> None:
    async with a_world(brokerDeduplicationEntriesInterval="1") as world:
        ledgers = stores_of(world, 3)
        await world.do("POST", PATH, TWO)
        await world.do("POST", f"{ONE}/deduplication", True)
        await world.do("PUT", "/admin/v2/persistent/public/default/t")
        await world.do("PUT", "/admin/v2/persistent/public/default/t/subscription/s", "earliest")
        await world.store(TOPIC, b"entry")
        topic = await world.topic(TOPIC)
        subscription = topic.subscriptions.get("s")
        assert subscription is not None
        subscription.cursor.ack([topic.managed.last])
        await subscription.cursor.flush()
        assert topic.recall is not None
        topic.recall.appended(1)
        await topic.recall.maintain()
        assert set(quorums(ledgers, "snapshots")) == {Quorum(2, 2, 1)}
        assert len(quorums(ledgers, "snapshots")) == 2


async def test_one_copy_refuses_larger_ensemble() -> None:
    async with a_world() as world:
        for method, path, body in (("POST", PATH, TWO), ("PUT", f"{ONE}2", {"persistence": TWO})):
            answer = await world.ask(method, path, body)
            assert answer.status == 501
            assert "persistence: this broker stores its ledgers on its own disk in one copy" in answer.reason
        assert (await world.ask("GET", PATH)).body == b""
        one = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
        await world.do("POST", PATH, one)
        await world.do("PUT", f"{ONE}2", {"persistence": one})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"bookkeeperEnsemble": 1}, "Bookkeeper Ensemble (1) >= WriteQuorum (2) >= AckQuorum (2)"),
        ({"bookkeeperAckQuorum": 3}, "Bookkeeper Ensemble (2) >= WriteQuorum (2) >= AckQuorum (3)"),
        ({"bookkeeperEnsemble": 0}, "Bookkeeper-Ensemble must be <= 5 and > 0."),
        ({"bookkeeperWriteQuorum": 6}, "Bookkeeper-WriteQuorum must be <= 5 and > 0."),
        ({"bookkeeperAckQuorum": -1}, "Bookkeeper-AckQuorum must be <= 5 and > 0."),
    ],
)
async def test_quorum_that_contradicts_itself_is_refused_as_recorded(body: dict[str, Any], reason: str) -> None:
    async with a_world() as world:
        stores_of(world, 5)
        answer = await world.ask("POST", PATH, body)
        assert (answer.status, answer.reason) == (400, reason)


async def test_mark_delete_rate_below_ours_is_refused() -> None:
    async with a_world() as world:
        stores_of(world, 3)
        for rate in (0, 1, 100, -1):
            await world.do("POST", PATH, {**TWO, "managedLedgerMaxMarkDeleteRate": rate})
        answer = await world.ask("POST", PATH, {**TWO, "managedLedgerMaxMarkDeleteRate": 0.1})
        assert (answer.status, "managedLedgerMaxMarkDeleteRate" in answer.reason) == (501, True)


async def test_recorded_exchanges_of_persistence_are_answered_alike() -> None:
    async with a_world() as world:
        stores_of(world, 3)
        await world.do("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
        await world.do("PUT", "/admin/v2/namespaces/acme/orders")
        exchanges = [one for one in recorded("namespaces-policies") if one.path.endswith("/orders/persistence")]
        assert len(exchanges) == 7
        for exchange in exchanges:
            headers = {"content_type": "application/json"} if exchange.body else {}
            answer = await world.ask(exchange.method, exchange.path, raw=exchange.body or b"", **headers)
            assert answer.status == exchange.status
            if exchange.document is not None:
                assert answer.document == exchange.document
