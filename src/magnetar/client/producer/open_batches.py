"""The open batches of one publisher: one for all messages, or one for each key. Pure decisions.

They are closed together, in an order that keeps sequence ids increasing: a broker that deduplicates treats an id below
the last one as a duplicate.
"""

from __future__ import annotations

from magnetar.base.limits import CLIENT_KEY_BATCHES_MAX
from magnetar.client.producer.batch import Batch
from magnetar.client.producer.fields import MessageFields


class OpenBatches:
    """`batch` is the one for all messages: None while it is empty, and always with batches by key."""

    __slots__ = ("_keyed", "batch", "by_key")

    def __init__(self, by_key: bool) -> None:
        self.by_key = by_key
        self.batch: Batch | None = None
        self._keyed: dict[str | bytes | None, Batch] = {}

    def __len__(self) -> int:
        """The number of messages."""
        count = 0 if self.batch is None else len(self.batch)
        return count + sum(len(batch) for batch in self._keyed.values())

    @property
    def full(self) -> bool:
        return len(self._keyed) >= CLIENT_KEY_BATCHES_MAX

    def find(self, fields: MessageFields | None) -> Batch | None:
        return self._keyed.get(batch_key(fields)) if self.by_key else self.batch

    def open(self, fields: MessageFields | None, now: float) -> Batch:
        batch = Batch(now, keyed=self.by_key)
        if self.by_key:
            self._keyed[batch_key(fields)] = batch
        else:
            self.batch = batch
        return batch

    def take(self) -> list[Batch]:
        """All batches in the order of storing: those with given sequence ids first, then by opening."""
        batches = list(self._keyed.values())
        self._keyed = {}
        if self.batch is not None:
            batches.append(self.batch)
            self.batch = None
        if len(batches) > 1:
            batches.sort(key=_order)
        return batches


def _order(batch: Batch) -> tuple[bool, int]:
    return batch.sequences is None, batch.last_sequence


def batch_key(fields: MessageFields | None) -> str | bytes | None:
    """The key by which Key_Shared subscriptions distribute the message."""
    if fields is None:
        return None
    return fields.key if fields.ordering_key is None else fields.ordering_key
