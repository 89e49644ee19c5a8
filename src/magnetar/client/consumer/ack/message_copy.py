"""A received message as one to be sent: everything that its sender said of it, under another sequence id.

What belongs to the way it came (producer, times of publishing, positions) stays behind. Decides only.
"""

from __future__ import annotations

from typing import Any

from magnetar.client.message import Message
from magnetar.client.producer.fields import MessageFields


def copied(message: Message[Any], sequence: int) -> tuple[bytes, MessageFields]:
    """Its payload, and its fields."""
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
