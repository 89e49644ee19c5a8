"""What Pulsar has and Magnetar has not: refused with the reply that ends the request, never with silence."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.wire.proto import pb
from tests.unit.broker.world import World, body_of, command

_T = pb.BaseCommand
TRANSACTIONS: dict[str, dict[str, Any]] = {
    "NEW_TXN": {},
    "ADD_PARTITION_TO_TXN": {},
    "ADD_SUBSCRIPTION_TO_TXN": {},
    "END_TXN": {},
    "END_TXN_ON_PARTITION": {},
    "END_TXN_ON_SUBSCRIPTION": {},
    "TC_CLIENT_CONNECT_REQUEST": {"tc_id": 0},
}


@pytest.mark.parametrize("kind", sorted(TRANSACTIONS))
async def test_transactions_are_not_allowed(world: World, kind: str) -> None:
    client = world.client()
    answer = await client.ask(kind, **TRANSACTIONS[kind])
    assert answer.type == _T.ERROR
    assert answer.error.error == pb.NotAllowedError
    assert "not supported" in answer.error.message
    assert not client.wire.closing


@pytest.mark.parametrize(
    ("kind", "fields", "reply"),
    [
        ("WATCH_TC_ASSIGNMENTS", {"watch_id": 5}, "WATCH_TC_ASSIGNMENTS_UPDATE"),
    ],
)
async def test_sessions_and_watches_are_refused_in_their_own_words(
    world: World, kind: str, fields: dict[str, Any], reply: str
) -> None:
    client = world.client()
    client.say(command(kind, **fields))
    said = client.heard.heard[-1][0]
    assert _T.Type.Name(said.type) == reply
    answer = body_of(said)
    assert answer.error == pb.NotAllowedError
    assert answer.watch_id == 5


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("SCALABLE_TOPIC_CLOSE", {"session_id": 5}),
        ("WATCH_TC_ASSIGNMENTS_CLOSE", {"watch_id": 5}),
    ],
)
async def test_closing_what_was_refused_is_no_error(world: World, kind: str, fields: dict[str, Any]) -> None:
    client = world.client()
    client.say(command(kind, **fields))
    assert client.heard.kinds == ["CONNECTED"]
    assert not client.wire.closing
