"""What a producer has on its way to segments: one message, or many that came one after the other, in columns.

A message is an object where something may become of it alone. Most messages only wait a moment for the others of their
batch: for these there are columns, which cost a few appends each and nothing that the garbage collector walks. Columns
come apart into messages as soon as one of them has to be told from the others. Decides only.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.router import KeyRoute


class SendStatus(Enum):
    LIVE = auto()  # no outcome yet
    STORED = auto()  # a receipt came
    UNKNOWN = auto()  # given up, and it may be stored
    FAILED = auto()  # given up, and it is not stored, for sure


class QueuedMessage:
    """One message. `item` is the sender's own, with `fields` and `done` where it has them; `turn` says when it came
    among all messages of the producer, `place` when it goes: entry buckets may change that before it is written.
    """

    __slots__ = (
        "alone",
        "deadline",
        "done",
        "doubt",
        "fate",
        "fields",
        "group",
        "item",
        "place",
        "route",
        "sequence",
        "size",
        "turn",
    )

    count = 1  # messages: a sheaf has many, and numbers up to a `highest`

    def __init__(
        self,
        item: Any,
        route: KeyRoute,
        place: int,
        sequence: int,
        size: int,
        deadline: float,
        alone: bool = False,
        group: object = None,
        fields: MessageFields | None = None,
        done: Done | None = None,
    ) -> None:
        self.item = item
        self.fields = fields
        self.done = done
        self.route = route
        self.place = self.turn = place
        self.sequence = sequence
        self.size = size
        self.deadline = deadline
        self.alone = alone  # never in a batch
        self.group = group  # only messages of one group share a batch
        self.doubt = False  # it was written somewhere and nobody said what became of it
        self.fate = SendStatus.LIVE

    @property
    def highest(self) -> int:
        return self.sequence

    def __repr__(self) -> str:
        return f"Outbound({self.sequence}, {self.fate.name}{', in doubt' if self.doubt else ''})"


class Columns:
    """Messages of one entry bucket of a lane. All of them are alive, in no doubt, and numbered by their producer; they
    came in the order of `came`, the numbers that they had then. `offset` is what a number has over a place.
    """

    __slots__ = (
        "bucket",
        "came",
        "deadlines",
        "dones",
        "fate",
        "fields",
        "items",
        "offset",
        "routes",
        "sequences",
        "sizes",
    )

    def __init__(self, bucket: int, offset: int) -> None:
        self.bucket = bucket
        self.offset = offset
        self.items: list[Any] = []
        self.fields: list[MessageFields | None] = []
        self.dones: list[Done | None] = []
        self.routes: list[KeyRoute] = []
        self.sequences: list[int] = []
        self.came = self.sequences
        self.sizes: list[int] = []
        self.deadlines: list[float] = []
        self.fate = SendStatus.LIVE

    def __len__(self) -> int:
        return len(self.items)

    def pieces(self, messages_max: int, bytes_max: int) -> list[Columns]:
        """Cut into what an entry may hold each; one message may, however large it is."""
        if len(self.items) <= messages_max and sum(self.sizes) <= bytes_max:
            return [self]
        found: list[Columns] = []
        start, room = 0, bytes_max
        for place, size in enumerate(self.sizes):
            room -= size
            if place > start and (room < 0 or place - start >= messages_max):
                found.append(self._piece(start, place))
                start, room = place, bytes_max - size
        found.append(self._piece(start, len(self.items)))
        return found

    def _piece(self, start: int, stop: int) -> Columns:
        made = Columns(self.bucket, self.offset)
        made.items = self.items[start:stop]
        made.fields = self.fields[start:stop]
        made.dones = self.dones[start:stop]
        made.routes = self.routes[start:stop]
        made.sequences = self.sequences[start:stop]
        made.came = made.sequences if self.came is self.sequences else self.came[start:stop]
        made.sizes = self.sizes[start:stop]
        made.deadlines = self.deadlines[start:stop]
        return made

    def singles(self) -> list[QueuedMessage]:
        """Its messages one by one."""
        offset, found = self.offset, []
        for place, item in enumerate(self.items):
            sequence = self.sequences[place]
            one = QueuedMessage(
                item, self.routes[place], sequence - offset, sequence, self.sizes[place], self.deadlines[place]
            )
            one.fields, one.done, one.fate = self.fields[place], self.dones[place], self.fate
            one.turn = self.came[place] - offset
            found.append(one)
        return found


def renumber(groups: Sequence[Columns]) -> None:
    """Give the numbers of all groups out anew, so that they grow from one group to the next."""
    numbers = sorted(number for group in groups for number in group.sequences)
    start = 0
    for group in groups:
        stop = start + len(group)
        group.sequences = numbers[start:stop]
        start = stop
