"""What is given where a message, its id or a time is meant: taken if it is one, else told with what it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from magnetar.base.errors import Misuse
from magnetar.client.given import PUBLISH_MS_MAX, check_id, check_message, is_publish_ms, publish_ms
from magnetar.client.message import Delivery, Message, MessageId
from magnetar.client.schemas import BYTES
from magnetar.wire.proto import pb

MESSAGE = Message(b"m", Delivery(pb.MessageMetadata(), "persistent://public/default/t", BYTES, ledger=1, entry=2))


def test_a_message_and_an_id_are_told_from_each_other_and_from_all_else() -> None:
    check_message(MESSAGE)
    check_id(MessageId(1, 2))
    for given in (None, "x" * 200, b"\x08\x01", 7, MessageId(1, 2)):
        with pytest.raises(Misuse, match="as the consumer received it") as told:
            check_message(given)
        assert told.value.facts["given"] == repr(given)[:80]
    for given, how in ((None, "message.id"), (b"\x08\x01", "from_bytes"), (bytearray(b"x"), "from_bytes")):
        with pytest.raises(Misuse, match=how):
            check_id(given)


def test_a_publish_time_is_a_date_or_milliseconds_since_1970() -> None:
    assert publish_ms(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)) == 1500
    assert [publish_ms(given) for given in (0, 5, PUBLISH_MS_MAX)] == [0, 5, PUBLISH_MS_MAX]
    for given in (None, "5", 5.0, True, -1, PUBLISH_MS_MAX + 1, datetime(1969, 1, 1, tzinfo=UTC)):
        with pytest.raises(Misuse, match="no place to seek"):
            publish_ms(given)
    assert not is_publish_ms(True)
