"""The contract between a producer and the publisher of its messages: `Publisher` and `ScalablePublisher` satisfy it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from magnetar.base.errors import MagnetarError
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch


class TopicPublisher(Protocol):
    """Accepts the messages of a producer: for a topic, a partition, or all segments of a scalable topic."""

    name: str
    counters: Counters
    last_sequence: int  # the highest with a receipt

    @property
    def attached(self) -> bool: ...

    @property
    def pending(self) -> int: ...

    async def start(self) -> None: ...

    def add(self, payload: bytes, fields: MessageFields | None, done: Done | None, *, awaited: bool = False) -> None:
        """`awaited`: a caller waits for this message, so it does not wait for others to share its entry."""
        ...

    def cutting(self, *, numbered: bool = False) -> BatchingPlan | None:
        """How to split messages for `add_sheaf`, or with numbers of their own for `add_sheaves`. None: the caller adds
        messages one by one.
        """
        ...

    def add_sheaf(self, sheaf: PrebuiltBatch) -> bool:
        """As `add`, for a prebuilt batch. False: the batch became invalid, and no message was taken."""
        ...

    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch]) -> bool:
        """As `add_sheaf`, for several batches numbered by their sender: takes all of them, or none."""
        ...

    def refused(self, done: Done | None, error: MagnetarError) -> None: ...

    def hurry(self, *, awaited: bool = False) -> None: ...

    async def flush(self) -> None: ...

    async def close(self, *, flush: bool = True) -> None: ...
