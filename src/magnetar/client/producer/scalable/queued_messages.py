"""A producer's pending messages for segments: single message objects, or consecutive messages in columns.

A message is an object where its own result matters. Most messages only wait briefly for the others of their batch. They
are kept in columns, which cost a few appends per message and create no objects for the garbage collector to traverse.
Columns are converted to message objects as soon as one message must be handled separately. Pure decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.router import KeyRoute


class SendStatus(Enum):
    LIVE = auto()  # no result yet
    STORED = auto()  # receipt received
    UNKNOWN = auto()  # given up, and it may be stored
    FAILED = auto()  # given up, and it is certainly not stored


class QueuedMessage:
    """One message. `item` is the sender's payload, with `fields` and `done` if given. `turn` is its arrival position
    among all messages of the producer, `place` its sending position: entry buckets may change `place` before the write.
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

    count = 1  # messages: a prebuilt batch has many, with numbers up to a `highest`

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
        self.alone = alone  # never part of a batch
        self.group = group  # only messages of one group share a batch
        self.doubt = False  # it was written without an answer, so it may be stored
        self.fate = SendStatus.LIVE

    @property
    def highest(self) -> int:
        return self.sequence

    def __repr__(self) -> str:
        return f"QueuedMessage({self.sequence}, {self.fate.name}{', in doubt' if self.doubt else ''})"


class Columns:
    """Messages of one entry bucket of a segment queue. All are live, not in doubt, and numbered by their producer. They
    arrived in the order of `came`, their first numbers. `offset` is the difference between a number and its place.
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
        """Split into parts that fit one entry each; a single message fits regardless of its size."""
        if len(self.items) <= messages_max and sum(self.sizes) <= bytes_max:
            return [self]
        pieces: list[Columns] = []
        start, room = 0, bytes_max
        for index, size in enumerate(self.sizes):
            room -= size
            if index > start and (room < 0 or index - start >= messages_max):
                pieces.append(self._piece(start, index))
                start, room = index, bytes_max - size
        pieces.append(self._piece(start, len(self.items)))
        return pieces

    def _piece(self, start: int, stop: int) -> Columns:
        piece = Columns(self.bucket, self.offset)
        piece.items = self.items[start:stop]
        piece.fields = self.fields[start:stop]
        piece.dones = self.dones[start:stop]
        piece.routes = self.routes[start:stop]
        piece.sequences = self.sequences[start:stop]
        piece.came = piece.sequences if self.came is self.sequences else self.came[start:stop]
        piece.sizes = self.sizes[start:stop]
        piece.deadlines = self.deadlines[start:stop]
        return piece

    def singles(self) -> list[QueuedMessage]:
        """Its messages as objects."""
        offset, messages = self.offset, []
        for index, item in enumerate(self.items):
            sequence = self.sequences[index]
            message = QueuedMessage(
                item, self.routes[index], sequence - offset, sequence, self.sizes[index], self.deadlines[index]
            )
            message.fields, message.done, message.fate = self.fields[index], self.dones[index], self.fate
            message.turn = self.came[index] - offset
            messages.append(message)
        return messages


def renumber(groups: Sequence[Columns]) -> None:
    """Reassign the numbers of all groups, so that they increase from one group to the next."""
    numbers = sorted(number for group in groups for number in group.sequences)
    start = 0
    for group in groups:
        stop = start + len(group)
        group.sequences = numbers[start:stop]
        start = stop
