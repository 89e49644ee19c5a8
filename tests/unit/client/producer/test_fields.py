"""What a message says beside its payload: what is remembered of keys says the same as what is made anew."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.limits import CACHED_KEY_CHARS_MAX
from magnetar.client.producer.fields import fields_of, keyed
from magnetar.wire.send_frames import single_extras

NOTHING: dict[str, Any] = {
    "ordering_key": None,
    "properties": None,
    "event_time_ms": None,
    "deliver_at_ms": None,
    "sequence_id": None,
    "replicate_to": None,
}


@pytest.mark.parametrize("key", ["k", "", "ключ", "x" * CACHED_KEY_CHARS_MAX, "x" * (CACHED_KEY_CHARS_MAX + 1)])
def test_single_key_encoding_is_unchanged_for_any_length(key: str) -> None:
    for _ in range(2):
        assert keyed(key).extras() == single_extras(None, key.encode(), False, None, 0, False)


def test_equal_key_as_text_or_bytes_states_its_form() -> None:
    text, raw = keyed("a2V5"), fields_of(key=b"key", null_value=False, **NOTHING)
    assert raw.key == text.key
    assert raw.extras() != text.extras()


@pytest.mark.parametrize(
    "more", [{"properties": {"a": "b"}}, {"ordering_key": b"o"}, {"event_time_ms": 7}, {"null_value": True}]
)
def test_what_comes_with_key_is_not_forgotten(more: dict[str, Any]) -> None:
    fields = fields_of(**{"key": "k", "null_value": False, **NOTHING, **more})
    assert fields.extras() == single_extras(
        fields.properties, b"k", False, fields.ordering_key, fields.event_time, fields.null_value
    )
    assert fields.extras() != keyed("k").extras()


def test_key_that_is_no_text_is_refused_with_sentence() -> None:
    with pytest.raises(Misuse, match=r"key must be str or bytes, got int: use str\(key\) \(key=1\)"):
        fields_of(key=1, null_value=False, **NOTHING)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="ordering_key must be bytes, got str"):
        fields_of(key=None, null_value=False, **{**NOTHING, "ordering_key": "k"})


@pytest.mark.parametrize("name", ["event_time_ms", "deliver_at_ms", "sequence_id"])
@pytest.mark.parametrize("value", [1.5, "1", True])
def test_number_of_another_type_is_refused_before_message_is_queued(name: str, value: Any) -> None:
    with pytest.raises(Misuse, match=f"{name} must be a whole number, got {type(value).__name__}"):
        fields_of(key=None, null_value=False, **{**NOTHING, name: value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("properties", "a", "properties must map text to text"),
        ("properties", ["a"], "properties must map text to text"),
        ("replicate_to", "a", "replicate_to must be a list of clusters"),
    ],
)
def test_field_of_another_type_is_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        fields_of(key=None, null_value=False, **{**NOTHING, name: value})
