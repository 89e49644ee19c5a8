"""What applications give to clients where a message, its id, a place, a topic, a name or a number is meant.

Type checkers see what is none of these; not everybody has one, and a message that was not acknowledged because of a
slip comes again much later. So each is `Misuse`, with what was given and what to give. Looks at kinds and bounds only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from numbers import Integral
from re import Pattern
from typing import TypeGuard

from magnetar.base.errors import Misuse
from magnetar.base.names import TopicName, topic_name
from magnetar.client.message import Message, MessageId
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, ReadPosition

SHOWN_CHARS_MAX = 80  # of what was given
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


def check_of(given: MessageId, topics: Iterable[str], *, namespace: str = "") -> None:
    """One that says which topic it is of is of one of these, or of the namespace; one that does not is believed. The
    same place of another topic is another message, and to acknowledge that is to lose it."""
    if not given.topic:
        return
    said = {_whole(topic) for topic in (given.topic, *(topic for topic, _ in given.topics))}
    if all(str(whole.namespace) != namespace for whole in said) and said.isdisjoint(map(_whole, topics)):
        words = "the message is of another topic than the consumer's: acknowledge it where it was received"
        raise Misuse(words, id=str(given), topic=str(_whole(given.topic)))


def check_topic(given: object) -> None:
    if not isinstance(given, str):
        raise Misuse(f"one topic is meant, by its name: {_NAMED}", given=_shown(given))


def check_topics(given: object) -> None:
    """One, several, or a pattern."""
    several = isinstance(given, (list, tuple)) and all(isinstance(one, str) for one in given)
    if not isinstance(given, (str, Pattern)) and not several:
        words = f"a topic is meant, by its name, a list of names or a compiled pattern: {_NAMED}"
        raise Misuse(words, given=_shown(given))


def check_text(given: object, what: str) -> None:
    if not isinstance(given, str):
        raise Misuse(f"{what} is text", given=_shown(given))


def check_number(given: object, what: str) -> None:
    if not is_number(given) or not 0 <= given <= NUMBER_MAX:
        raise Misuse(f"{what} is a whole number, from 0 on", given=_shown(given))


def check_call(given: object, what: str) -> None:
    if given is not None and not callable(given):
        raise Misuse(f"{what} is a function, or None", given=_shown(given))


def is_number(given: object) -> TypeGuard[int]:
    """A whole one, of other libraries too; True and False are none."""
    return isinstance(given, Integral) and not isinstance(given, bool)


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


def check_places(given: object, topic: str) -> None:
    """Where readers stand, by segment. What is no place at all is not asked about: no broker has an answer to it."""
    if not isinstance(given, Mapping):
        raise Misuse(_PLACES, topic=topic, given=_shown(given))
    for segment, place in given.items():
        if type(segment) is not int or not 0 <= segment < NUMBER_MAX:
            raise Misuse(f"this is no segment: {_PLACES}", topic=topic, given=_shown(segment))
        if not isinstance(place, ReadPosition) or not _is_place(place):
            raise Misuse(
                f"this is no place in a segment, which is an entry of a ledger, the beginning or the end: {_PLACES}",
                topic=topic,
                segment=segment,
                given=_shown(place),
            )


_NAMED = "text such as topic://public/default/orders"
_PLACES = "places are by segment where each is read next, as the stretches of Client.plan have them"


def _whole(topic: str) -> TopicName:
    """The scalable topic that a topic, its partitions or its segments are of, or could become."""
    name = topic_name(topic)
    return name.parent if name.is_segment else name.scalable


def _is_place(given: ReadPosition) -> bool:
    ledger, entry, row = given
    if type(ledger) is not int or type(entry) is not int or type(row) is not int:
        return False
    return (min(given) >= 0 and max(given) < NUMBER_MAX) or given in (START, DONE)


def _shown(given: object) -> str:
    return repr(given)[:SHOWN_CHARS_MAX]
