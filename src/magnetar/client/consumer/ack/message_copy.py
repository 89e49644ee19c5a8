"""Copies a received message for sending: all fields that its sender set, under another sequence id.

Fields of the first delivery (producer, publish time, position) are not copied. Pure decisions.
"""

from __future__ import annotations

from typing import Any

from magnetar.client.message import Message
from magnetar.client.producer.fields import MessageFields


def copied(message: Message[Any], sequence: int) -> tuple[bytes, MessageFields]:
    """The payload and the fields."""
    head = message._head
    fields = MessageFields()
    fields.sequence = sequence
    if head.HasField("partition_key"):
        fields.key = message.key
        fields.key_base64 = head.partition_key_b64_encoded
    if head.HasField("ordering_key"):
        fields.ordering_key = head.ordering_key
    if head.properties:
        fields.properties = dict(message.properties)
    fields.event_time = head.event_time
    fields.null_value = head.null_value
    return message.data, fields
