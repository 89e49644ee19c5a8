"""What a producer needs of whoever stores its messages. A contract: `Publisher` and `ScalablePublisher` keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from magnetar.base.errors import MagnetarError
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.prebuilt_batch import BatchingPlan, PrebuiltBatch


class TopicPublisher(Protocol):
    """Where a producer hands its messages: a topic, a partition of one, or all segments of a scalable one."""

    name: str
    counters: Counters
    last_sequence: int  # stored, for sure

    @property
    def attached(self) -> bool: ...

    @property
    def pending(self) -> int: ...

    async def start(self) -> None: ...

    def add(self, payload: bytes, fields: MessageFields | None, done: Done | None, *, awaited: bool = False) -> None:
        """`awaited`: somebody waits for this one, so it does not wait for others to share an entry with."""
        ...

    def cutting(self, *, numbered: bool = False) -> BatchingPlan | None:
        """How messages for `add_sheaf`, or with numbers of their own for `add_sheaves`, are cut now; None: they are
        added one by one.
        """
        ...

    def add_sheaf(self, sheaf: PrebuiltBatch) -> bool:
        """As `add`, for many. False: it does not hold good any more, and nothing of it was taken."""
        ...

    def add_sheaves(self, sheaves: Sequence[PrebuiltBatch]) -> bool:
        """As `add_sheaf`, for several whose sender gave them their numbers: all of them, or none."""
        ...

    def refused(self, done: Done | None, error: MagnetarError) -> None: ...

    def hurry(self, *, awaited: bool = False) -> None: ...

    async def flush(self) -> None: ...

    async def close(self, *, flush: bool = True) -> None: ...
