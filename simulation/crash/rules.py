"""The rules for the recorded load: each function returns findings from its history, and names its invariant of
protocol.md 4b.

`check_at_rest` applies all rules to a history at rest: every subscription was drained in the present run.
`check_running` leaves out the rules that need rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simulation.crash.history import (
    Delivery,
    History,
    Message,
    Place,
    parse,
)

Rule = Callable[[History], Iterator[str]]


def never_sent(history: History) -> Iterator[str]:
    """Invariant 2: nothing is delivered that was never sent."""
    for delivery in history.deliveries:
        try:
            is_sent = parse(delivery.payload) in history.sent.get(delivery.topic, {})
        except ValueError:
            is_sent = False
        if not is_sent:
            yield f"{_at(delivery)} was delivered and never sent"


def contradictions(history: History) -> Iterator[str]:
    """Invariant 6: a position holds the same message in every delivery, in every run, and in its receipt."""
    held: dict[tuple[str, Place], bytes] = {}
    for topic, messages in history.sent.items():
        for message, sent in messages.items():
            for place in sent.places:
                before = held.setdefault((topic, place), message.payload)
                if before != message.payload:
                    yield f"{topic} {place} was receipted for {before!r} and for {message.payload!r}"
    for delivery in history.deliveries:
        before = held.setdefault((delivery.topic, delivery.place), delivery.payload)
        if before != delivery.payload:
            yield f"{_at(delivery)} was {before!r} before"


def duplicates(history: History) -> Iterator[str]:
    """Invariant 3: a message has as many places as it was sent times at most; one with deduplication."""
    for topic, messages in history.sent.items():
        places: dict[Message, set[Place]] = {}
        for place, payload in history.log(topic):
            places.setdefault(parse(payload), set()).add(place)
        for message, sent in messages.items():
            stored = places.get(message, set()) | set(sent.places)
            allowed = 1 if topic in history.once else sent.attempts
            if len(stored) > allowed:
                yield f"{topic} {message.payload!r} is at {sorted(stored)}, sent {sent.attempts} times"
            if sent.receipts > sent.attempts:
                yield f"{topic} {message.payload!r} was receipted {sent.receipts} times, sent {sent.attempts} times"


def out_of_order(history: History) -> Iterator[str]:
    """Invariant 4: in a topic's log the first copies of a producer's messages stand in the order they were sent."""
    for topic in history.sent:
        newest: dict[str, int] = {}
        seen: set[Message] = set()
        for place, payload in history.log(topic):
            message = parse(payload)
            if message in seen:
                continue
            seen.add(message)
            if message.number < newest.get(message.producer, -1):
                yield f"{topic} {place} {payload!r} comes behind number {newest[message.producer]}"
            newest[message.producer] = message.number


def delivered_out_of_order(history: History) -> Iterator[str]:
    """Invariant 4: a single consumer gets entries in their order; with Key_Shared each key's come in their order."""
    newest: dict[tuple[object, ...], Place] = {}
    for delivery in history.deliveries:
        subscription = history.subscriptions.get((delivery.topic, delivery.subscription))
        if subscription is None or not (subscription.ordered or subscription.keyed):
            continue
        line: tuple[object, ...] = (delivery.topic, delivery.subscription, delivery.session)
        if subscription.keyed:
            line = (delivery.topic, delivery.subscription, delivery.life, parse(delivery.payload).key)
        if delivery.place <= newest.get(line, (-1, -1, -1)):
            yield f"{_at(delivery)} was delivered behind {newest[line]}"
        newest[line] = delivery.place


def missing(history: History) -> Iterator[str]:
    """Invariant 1: every subscription has seen every receipted message."""
    for topic, subscription in history.subscriptions:
        got = history.got(topic, subscription)
        for message, sent in history.sent.get(topic, {}).items():
            if sent.receipts and message not in got:
                yield f"{topic} {subscription}: {message.payload!r} at {sent.places} was never delivered"


def not_redelivered(history: History) -> Iterator[str]:
    """Invariant 9: what a subscription was owed at the end of the last run came again in this one."""
    for name, owed in history.before.items():
        for message in sorted(owed - history.got(*name, life=history.life)):
            yield f"{name[0]} {name[1]}: {message.payload!r} was not acknowledged and did not come again"


def redelivered_after_ack(history: History) -> Iterator[str]:
    """An acknowledgement that the broker called durable is final: the message does not come in a later run."""
    for delivery in history.deliveries:
        forgotten = history.forgotten.get((delivery.topic, delivery.subscription), {})
        if delivery.life > forgotten.get(parse(delivery.payload), delivery.life):
            yield f"{_at(delivery)} was acknowledged for good and came again"


def delivered_after_deletion(history: History) -> Iterator[str]:
    """Invariant 13: what was deleted with its topic is not seen again."""
    for number, delivery in enumerate(history.deliveries):
        if number >= history.buried.get((delivery.topic, parse(delivery.payload)), number + 1):
            yield f"{_at(delivery)} was deleted with its topic"


WHILE_RUNNING: list[Rule] = [
    never_sent,
    contradictions,
    duplicates,
    out_of_order,
    delivered_out_of_order,
    redelivered_after_ack,
    delivered_after_deletion,
]
AT_REST: list[Rule] = [missing, not_redelivered]


def check_running(history: History) -> list[str]:
    return _findings(history, WHILE_RUNNING)


def check_at_rest(history: History) -> list[str]:
    return _findings(history, WHILE_RUNNING + AT_REST)


def _findings(history: History, rules: list[Rule]) -> list[str]:
    return [f"{rule.__name__}: {finding}" for rule in rules for finding in rule(history)]


def _at(delivery: Delivery) -> str:
    return f"{delivery.topic} {delivery.subscription} {delivery.place} {delivery.payload!r} (life {delivery.life})"
