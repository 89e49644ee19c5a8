"""The history of the recorded load: sends and receipts, deliveries and acknowledgements, by run of the broker. Lines of
real clients are in `simulation.history`.

A run ends with a crash, a kill or a stop. A message is `producer|key|number`; a producer counts its numbers up by one.
An acknowledgement is recorded when the consumer sends it: the broker may have received it or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

Place = tuple[int, int, int]  # ledger, entry, index inside the batch (0 where there is none)


class Message(NamedTuple):
    producer: str
    key: str
    number: int

    @property
    def payload(self) -> bytes:
        return f"{self.producer}|{self.key}|{self.number}".encode()


@lru_cache(maxsize=1 << 16)
def parse(payload: bytes) -> Message:
    producer, key, number = payload.decode().split("|")
    return Message(producer, key, int(number))


@dataclass(slots=True)
class Sent:
    attempts: int = 0
    receipts: int = 0
    places: list[Place] = field(default_factory=list)  # that a receipt named; none for one that says "known already"


@dataclass(frozen=True, slots=True)
class Delivery:
    topic: str
    subscription: str
    session: int  # one attachment of one consumer
    life: int
    place: Place
    payload: bytes


@dataclass(frozen=True, slots=True)
class Subscribed:
    topic: str
    subscription: str
    ordered: bool  # one consumer at a time
    keyed: bool


class History:
    def __init__(self) -> None:
        self.life = 1
        self.sent: dict[str, dict[Message, Sent]] = {}
        self.once: set[str] = set()  # topics with deduplication
        self.subscriptions: dict[tuple[str, str], Subscribed] = {}
        self.deliveries: list[Delivery] = []
        self.acked: dict[tuple[str, str], set[Message]] = {}
        self.forgotten: dict[tuple[str, str], dict[Message, int]] = {}  # durably acknowledged, and in which life
        self.before: dict[tuple[str, str], set[Message]] = {}  # owed to a subscription when the last life ended
        self.buried: dict[tuple[str, Message], int] = {}  # deleted with their topic, and when among the deliveries
        self._sessions = 0
        self._began = {1: 0}  # where the deliveries of a life begin

    # What clients note

    def sending(self, topic: str, messages: Iterable[Message]) -> None:
        sends = self.sent.setdefault(topic, {})
        for message in messages:
            sends.setdefault(message, Sent()).attempts += 1

    def receipt(self, topic: str, messages: list[Message], ledger: int, entry: int) -> None:
        """`ledger` -1: the broker already had the message, and does not name its position."""
        for index, message in enumerate(messages):
            sent = self.sent[topic][message]
            sent.receipts += 1
            if ledger >= 0:
                sent.places.append((ledger, entry, index))

    def subscribed(self, topic: str, subscription: str, *, ordered: bool, keyed: bool) -> int:
        """A consumer is attached, at the earliest position; the number of its session."""
        self.subscriptions.setdefault((topic, subscription), Subscribed(topic, subscription, ordered, keyed))
        self._sessions += 1
        return self._sessions

    def delivered(self, topic: str, subscription: str, session: int, place: Place, payload: bytes) -> None:
        self.deliveries.append(Delivery(topic, subscription, session, self.life, place, payload))

    def acking(self, topic: str, subscription: str, messages: Iterable[Message]) -> None:
        self.acked.setdefault((topic, subscription), set()).update(messages)

    def durable(self, topic: str, subscription: str, messages: Iterable[Message]) -> None:
        """The broker answered that these acknowledgements are remembered."""
        forgotten = self.forgotten.setdefault((topic, subscription), {})
        for message in messages:
            forgotten.setdefault(message, self.life)

    def unsubscribed(self, topic: str, subscription: str) -> None:
        name = (topic, subscription)
        self.subscriptions.pop(name, None)
        self.acked.pop(name, None)
        self.forgotten.pop(name, None)
        self.before.pop(name, None)

    def deleting(self, topic: str) -> None:
        """From here on the topic may be deleted: nothing is promised about its messages."""
        for sent in self.sent.get(topic, {}).values():
            sent.receipts = 0
        for name in [name for name in self.subscriptions if name[0] == topic]:
            self.unsubscribed(*name)

    def deleted(self, topic: str) -> None:
        """The broker confirmed the deletion: its messages must not be seen again."""
        for message in self.sent.get(topic, {}):
            self.buried.setdefault((topic, message), len(self.deliveries))

    def next_life(self) -> None:
        """Ends a run of the broker. What it owes to each subscription is fixed here."""
        self.before = {name: self.owed(*name) for name in self.subscriptions}
        self.life += 1
        self._began[self.life] = len(self.deliveries)

    # What rules ask

    def owed(self, topic: str, subscription: str) -> set[Message]:
        """Receipted and not acknowledged by the subscription."""
        acked = self.acked.get((topic, subscription), set())
        return {message for message, sent in self.sent.get(topic, {}).items() if sent.receipts} - acked

    def got(self, topic: str, subscription: str, life: int | None = None) -> set[Message]:
        first = 0 if life is None else self._began[life]
        return {
            parse(delivery.payload)
            for delivery in islice(self.deliveries, first, None)
            if delivery.topic == topic
            and delivery.subscription == subscription
            and (life is None or delivery.life == life)
        }

    def log(self, topic: str) -> list[tuple[Place, bytes]]:
        """Every position of a topic that a client has seen, in order."""
        return sorted({(delivery.place, delivery.payload) for delivery in self.deliveries if delivery.topic == topic})
