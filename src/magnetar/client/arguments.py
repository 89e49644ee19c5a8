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


def check_message(given: object) -> None:
    """Accepts a received message."""
    if not isinstance(given, Message):
        raise Misuse("expected a received Message", given=_shown(given))


def check_id(given: object) -> None:
    """Accepts a MessageId; callers that also accept messages check for a message first."""
    if not isinstance(given, MessageId):
        kept = isinstance(given, (bytes, bytearray, memoryview))
        how = "MessageId.from_bytes reads stored bytes" if kept else "use message.id"
        raise Misuse(f"expected a received Message or its MessageId: {how}", given=_shown(given))


def check_of(given: MessageId, topics: Iterable[str], *, namespace: str = "") -> None:
    """An id that names its topic must be of one of these topics or of the namespace. An id without a topic is accepted.
    The same position in another topic is another message, and acknowledging that message would lose it."""
    if not given.topic:
        return
    said = {_whole(topic) for topic in (given.topic, *(topic for topic, _ in given.topics))}
    if all(str(whole.namespace) != namespace for whole in said) and said.isdisjoint(map(_whole, topics)):
        words = "the message belongs to a topic that this consumer does not read: acknowledge it where it was received"
        raise Misuse(words, id=str(given), topic=str(_whole(given.topic)))


def check_topic(given: object) -> None:
    if not isinstance(given, str):
        raise Misuse(f"topic must be one topic name, {_NAMED}", given=_shown(given))


def check_topics(given: object) -> None:
    """Accepts one name, several names, or a pattern."""
    several = isinstance(given, (list, tuple)) and all(isinstance(one, str) for one in given)
    if not isinstance(given, (str, Pattern)) and not several:
        words = f"topics must be a topic name, a list of names or a compiled pattern; a name is {_NAMED}"
        raise Misuse(words, given=_shown(given))


def check_text(given: object, what: str) -> None:
    if not isinstance(given, str):
        raise Misuse(f"{what} must be text", given=_shown(given))


def check_number(given: object, what: str) -> None:
    if not is_number(given) or not 0 <= given <= NUMBER_MAX:
        raise Misuse(f"{what} must be a whole number of 0 or more", given=_shown(given))


def check_call(given: object, what: str) -> None:
    if given is not None and not callable(given):
        raise Misuse(f"{what} must be a function or None", given=_shown(given))


def unknown_option(what: str, name: str, known: Iterable[str], meant: str = "") -> Misuse:
    """The error for an option that does not exist, with a similar one or the one that is `meant`."""
    near = [meant] if meant else get_close_matches(name, known, 1)
    return Misuse(f"{what} has no option {name}" + (f": did you mean {near[0]}?" if near else ""))


def check_schema(given: object) -> None:
    if isinstance(given, type) or not callable(getattr(given, "info", None)):
        name = given.__name__ if isinstance(given, type) else type(given).__name__
        raise Misuse(f"schema must be a schema, for example magnetar.Json({name})", given=_shown(given))


def is_number(given: object) -> TypeGuard[int]:
    """An integer, including the types of other libraries. True and False are not numbers."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def publish_ms(given: object) -> int:
    """The publish time to seek to, in milliseconds since 1970."""
    found = round(given.timestamp() * 1000) if isinstance(given, datetime) else given
    if not isinstance(found, int) or not is_publish_ms(found):
        raise Misuse(
            "seek position must be a MessageId (also MessageId.EARLIEST or LATEST) or a publish time (a datetime, or "
            "milliseconds since 1970)",
            given=_shown(given),
        )
    return found


def is_publish_ms(given: int) -> bool:
    return not isinstance(given, bool) and 0 <= given <= PUBLISH_MS_MAX


def check_places(given: object, topic: str) -> None:
    """Checks the positions of readers, by segment, so that the client sends no position that every broker refuses."""
    if not isinstance(given, Mapping):
        raise Misuse(_PLACES, topic=topic, given=_shown(given))
    for segment, place in given.items():
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


def _is_place(given: ReadPosition) -> bool:
    ledger, entry, row = given
    if type(ledger) is not int or type(entry) is not int or type(row) is not int:
        return False
    return (min(given) >= 0 and max(given) < NUMBER_MAX) or given in (START, DONE)


def _shown(given: object) -> str:
    return repr(given)[:SHOWN_CHARS_MAX]
