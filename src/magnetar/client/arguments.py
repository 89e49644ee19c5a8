"""Checks of the arguments that applications pass to clients: a message, an id, a position, a topic, a name, a number.

Type checkers find these mistakes, but not every application uses one, and a message that was not acknowledged by
mistake is redelivered much later. So each mistake raises `Misuse` with the value given and the value expected. The
checks look at types and bounds only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from numbers import Integral
from re import Pattern
from typing import TypeGuard

from magnetar.base.errors import Misuse
from magnetar.base.names import TopicName, topic_name
from magnetar.client.message import Message, MessageId
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, ReadPosition

SHOWN_CHARS_MAX = 80  # of the argument's repr, in an error
PUBLISH_MS_MAX = 2**63 - 1  # brokers compare publish times as signed 64-bit numbers


def check_message(value: object) -> None:
    """Accepts a received message."""
    if not isinstance(value, Message):
        raise Misuse("expected a received Message", given=_shown(value))


def check_id(value: object) -> None:
    """Accepts a MessageId; callers that also accept messages check for a message first."""
    if not isinstance(value, MessageId):
        kept = isinstance(value, (bytes, bytearray, memoryview))
        how = "MessageId.from_bytes reads stored bytes" if kept else "use message.id"
        raise Misuse(f"expected a received Message or its MessageId: {how}", given=_shown(value))


def check_of(id: MessageId, topics: Iterable[str], *, namespace: str = "") -> None:
    """An id that names its topic must be of one of these topics or of the namespace. An id without a topic is accepted.
    The same position in another topic is another message, and acknowledging that message would lose it."""
    if not id.topic:
        return
    names = {_whole(topic) for topic in (id.topic, *(topic for topic, _ in id.topics))}
    if all(str(whole.namespace) != namespace for whole in names) and names.isdisjoint(map(_whole, topics)):
        words = "the message belongs to a topic that this consumer does not read: acknowledge it where it was received"
        raise Misuse(words, id=str(id), topic=str(_whole(id.topic)))


def check_topic(value: object) -> None:
    if not isinstance(value, str):
        raise Misuse(f"topic must be one topic name, {_NAMED}", given=_shown(value))


def check_topics(value: object) -> None:
    """Accepts one name, several names, or a pattern."""
    several = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    if not isinstance(value, (str, Pattern)) and not several:
        words = f"topics must be a topic name, a list of names or a compiled pattern; a name is {_NAMED}"
        raise Misuse(words, given=_shown(value))


def check_text(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise Misuse(f"{what} must be text", given=_shown(value))


def check_number(value: object, what: str) -> None:
    if not is_number(value) or not 0 <= value <= NUMBER_MAX:
        raise Misuse(f"{what} must be a whole number of 0 or more", given=_shown(value))


def check_call(value: object, what: str) -> None:
    if value is not None and not callable(value):
        raise Misuse(f"{what} must be a function or None", given=_shown(value))


def unknown_option(what: str, name: str, options: Iterable[str], meant: str = "") -> Misuse:
    """The error for an option that does not exist, with a similar one or the one that is `meant`."""
    near = [meant] if meant else get_close_matches(name, options, 1)
    return Misuse(f"{what} has no option {name}" + (f": did you mean {near[0]}?" if near else ""))


def check_schema(value: object) -> None:
    if isinstance(value, type) or not callable(getattr(value, "info", None)):
        name = value.__name__ if isinstance(value, type) else type(value).__name__
        raise Misuse(f"schema must be a schema, for example magnetar.Json({name})", given=_shown(value))


def is_number(value: object) -> TypeGuard[int]:
    """An integer, including the types of other libraries. True and False are not numbers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def publish_ms(time: object) -> int:
    """The publish time to seek to, in milliseconds since 1970."""
    milliseconds = round(time.timestamp() * 1000) if isinstance(time, datetime) else time
    if not isinstance(milliseconds, int) or not is_publish_ms(milliseconds):
        raise Misuse(
            "seek position must be a MessageId (also MessageId.EARLIEST or LATEST) or a publish time (a datetime, or "
            "milliseconds since 1970)",
            given=_shown(time),
        )
    return milliseconds


def is_publish_ms(value: int) -> bool:
    return not isinstance(value, bool) and 0 <= value <= PUBLISH_MS_MAX


def check_places(value: object, topic: str) -> None:
    """Checks the positions of readers, by segment, so that the client sends no position that every broker refuses."""
    if not isinstance(value, Mapping):
        raise Misuse(_PLACES, topic=topic, given=_shown(value))
    for segment, place in value.items():
        if type(segment) is not int or not 0 <= segment < NUMBER_MAX:
            raise Misuse(
                f"segment id must be a whole number of 0 or more: {_PLACES}", topic=topic, given=_shown(segment)
            )
        if not isinstance(place, ReadPosition) or not _is_place(place):
            raise Misuse(
                f"position must be an entry of a ledger, the beginning or the end of a segment: {_PLACES}",
                topic=topic,
                segment=segment,
                given=_shown(place),
            )


_NAMED = "text such as topic://public/default/orders"
_PLACES = "places must map segment ids to read positions, as the stretches of Client.plan do"


def _whole(topic: str) -> TopicName:
    """The scalable topic of a topic, partition or segment; for a plain topic, the name it gets when it is migrated."""
    name = topic_name(topic)
    return name.parent if name.is_segment else name.scalable


def _is_place(position: ReadPosition) -> bool:
    ledger, entry, row = position
    if type(ledger) is not int or type(entry) is not int or type(row) is not int:
        return False
    return (min(position) >= 0 and max(position) < NUMBER_MAX) or position in (START, DONE)


def _shown(value: object) -> str:
    return repr(value)[:SHOWN_CHARS_MAX]
