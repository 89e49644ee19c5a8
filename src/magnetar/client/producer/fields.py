"""The optional fields of one message, in the form that the wire carries.

Most messages have none; they have no `MessageFields` at all, which keeps the code path of a plain message short. Pure
decisions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.limits import CACHED_KEY_CHARS_MAX, ROUTES_CACHED_MAX
from magnetar.client.arguments import SHOWN_CHARS_MAX, is_number
from magnetar.wire.ids import MessageId
from magnetar.wire.send_frames import Extras, single_extras

# Called once with the result of a message: its position, or its error.
Done: TypeAlias = Callable[[MessageId | None, MagnetarError | None], None]

LOCAL_ONLY = [b"__local__"]  # replicate_to of a message that stays in this cluster

_UINT64 = 1 << 64


class MessageFields:
    """All optional fields of one message. `key` is text, or the base64 of a key of bytes."""

    __slots__ = (
        "deliver_at",
        "event_time",
        "key",
        "key_base64",
        "null_value",
        "ordering_key",
        "properties",
        "replicate_to",
        "replicated_from",
        "sequence",
        "simple",
    )

    def __init__(self) -> None:
        self.key: str | None = None
        self.key_base64 = False
        self.ordering_key: bytes | None = None
        self.properties: dict[str, str] | None = None
        self.event_time = 0
        self.deliver_at = 0
        self.sequence = -1
        self.replicate_to: list[bytes] | None = None
        self.replicated_from: bytes | None = None
        self.null_value = False
        self.simple = False  # it has a text key and no other field

    @property
    def key_bytes(self) -> bytes | None:
        return None if self.key is None else self.key.encode()

    @property
    def batches(self) -> bool:
        """Whether the message may share an entry. Delays and clusters apply to whole entries."""
        return not self.deliver_at and self.replicate_to is None and self.replicated_from is None

    def extras(self) -> Extras:
        key = self.key
        if (
            key is not None
            and len(key) <= CACHED_KEY_CHARS_MAX
            and not (self.properties or self.ordering_key is not None or self.event_time or self.null_value)
        ):
            return _of_key(key, self.key_base64)  # the common case: a key only
        return single_extras(
            self.properties, self.key_bytes, self.key_base64, self.ordering_key, self.event_time, self.null_value
        )


def keyed(key: str) -> MessageFields:
    """The fields of a message that has only a text key. Do not change them: all messages of that key share them."""
    return _keyed(key) if len(key) <= CACHED_KEY_CHARS_MAX else _new_keyed(key)


def _new_keyed(key: str) -> MessageFields:
    fields = MessageFields()
    fields.key = key
    fields.simple = True
    return fields


_keyed = lru_cache(maxsize=ROUTES_CACHED_MAX)(_new_keyed)


@lru_cache(maxsize=ROUTES_CACHED_MAX)
def _of_key(key: str, key_base64: bool) -> Extras:
    return single_extras(None, key.encode(), key_base64, None, 0, False)


def fields_of(
    *,
    key: str | bytes | None,
    ordering_key: bytes | None,
    properties: Mapping[str, str] | None,
    event_time_ms: int | None,
    deliver_at_ms: int | None,
    sequence_id: int | None,
    replicate_to: Sequence[str] | None,
    null_value: bool,
) -> MessageFields:
    """Checks the fields in the caller's own call, so that an error does not appear later in the middle of a batch."""
    fields = MessageFields()
    if key is not None:
        if not isinstance(key, str | bytes | bytearray | memoryview):
            raise Misuse(f"key must be str or bytes, got {type(key).__name__}: use str(key)", key=repr(key)[:80])
        fields.key_base64 = not isinstance(key, str)
        fields.key = key if isinstance(key, str) else b64encode(key).decode()
    if ordering_key is not None:
        if not isinstance(ordering_key, bytes | bytearray | memoryview):
            raise Misuse(f"ordering_key must be bytes, got {type(ordering_key).__name__}")
        fields.ordering_key = bytes(ordering_key)
    if properties is not None:
        fields.properties = _checked(properties) or None
    fields.event_time = _number(event_time_ms, "event_time_ms")
    fields.deliver_at = _number(deliver_at_ms, "deliver_at_ms")
    if sequence_id is not None:
        fields.sequence = _number(sequence_id, "sequence_id")
    if replicate_to is not None:
        if isinstance(replicate_to, str):
            raise Misuse("replicate_to must be a list of clusters", given=replicate_to)
        fields.replicate_to = [cluster.encode() for cluster in replicate_to] or LOCAL_ONLY
    fields.null_value = null_value
    return fields


def _checked(properties: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(properties, Mapping):
        raise Misuse("properties must map text to text", given=repr(properties)[:SHOWN_CHARS_MAX])
    for name, text in properties.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise Misuse("properties must map text to text", name=name, value=text)
    return dict(properties)


def _number(value: int | None, name: str) -> int:
    if value is None:
        return 0
    if not is_number(value):
        hint = f": use int({name})" if isinstance(value, float) else ""
        raise Misuse(f"{name} must be a whole number, got {type(value).__name__}{hint}", value=value)
    value = int(value)
    if not 0 <= value < _UINT64:
        raise Misuse(f"{name} must be within 0 and 2**64 - 1", value=value)
    return value
