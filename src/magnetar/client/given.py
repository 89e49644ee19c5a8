"""What applications give to consumers where a message, its id or a place to go to is meant.

Type checkers see what is none of these; not everybody has one, and a message that was not acknowledged because of a
slip comes again much later. So each is `Misuse`, with what was given and what to give. Looks at kinds and bounds only.
"""

from __future__ import annotations

from datetime import datetime

from magnetar.base.errors import Misuse
from magnetar.client.message import Message, MessageId

SHOWN_CHARS_MAX = 80
PUBLISH_MS_MAX = 2**63 - 1  # what brokers compare it with


def check_message(given: object) -> None:
    """One that was received."""
    if not isinstance(given, Message):
        raise Misuse("a message is meant, as the consumer received it", given=_shown(given))


def check_id(given: object) -> None:
    """Of a message; whoever takes messages too has looked for one before."""
    if not isinstance(given, MessageId):
        kept = isinstance(given, (bytes, bytearray, memoryview))
        how = "MessageId.from_bytes makes it of bytes that were kept" if kept else "message.id has it"
        raise Misuse(f"a message that was received is meant, or its MessageId: {how}", given=_shown(given))


def publish_ms(given: object) -> int:
    """A time to seek to, in milliseconds since 1970."""
    found = round(given.timestamp() * 1000) if isinstance(given, datetime) else given
    if not isinstance(found, int) or not is_publish_ms(found):
        raise Misuse(
            "this is no place to seek: it is a MessageId (MessageId.EARLIEST and LATEST too), or a publish time (a "
            "datetime, or milliseconds) since 1970",
            given=_shown(given),
        )
    return found


def is_publish_ms(given: int) -> bool:
    return not isinstance(given, bool) and 0 <= given <= PUBLISH_MS_MAX


def _shown(given: object) -> str:
    return repr(given)[:SHOWN_CHARS_MAX]
