"""help() of a method shows its options with type, default and meaning."""

from __future__ import annotations

import pydoc

import pytest

import magnetar
from magnetar.client.option_help import field_rows, option_rows
from magnetar.client.options import QueueOptions


@pytest.mark.parametrize("client", [magnetar.Client, magnetar.aio.Client])
@pytest.mark.parametrize(
    ("method", "shown"),
    [
        ("create_producer", "send_timeout_s: float = 30"),
        ("subscribe", "type: SubscriptionType = SubscriptionType.EXCLUSIVE"),
        ("stream_consumer", "ack_batch_index: bool = True"),
        ("queue_consumer", 'on_undecodable: "raise" | "dead_letter" = \'raise\''),
        ("checkpoint_consumer", "queue_messages: int = 1000"),
        ("create_reader", "start_inclusive: bool = False"),
    ],
)
def test_help_of_method_shows_option(client: type, method: str, shown: str) -> None:
    assert shown in pydoc.plaintext.document(getattr(client, method))


def test_rows_tell_defaults_of_their_kind() -> None:
    rows = {row.name: row for row in option_rows(QueueOptions)}
    assert rows["ack_batch_index"].default == "True"
    assert rows["queue_bytes"].default == "67_108_864"
    assert field_rows(magnetar.Namespace)[0].default == ""
