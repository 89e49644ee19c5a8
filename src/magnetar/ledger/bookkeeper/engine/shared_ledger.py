"""The state of one ledger that the writer and the readers of one process share: its end, its counts, its deletion."""

from __future__ import annotations

from magnetar.base.errors import NoSuchLedger
from magnetar.ledger.bookkeeper.engine.count_index import CountIndex
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata


class SharedLedger:
    __slots__ = ("__weakref__", "deleted", "index", "last_entry", "ledger", "metadata")

    def __init__(self, ledger: int, last_entry: int, metadata: LedgerMetadata) -> None:
        self.ledger = ledger
        self.metadata = metadata  # the newest that this process has read or written
        self.index = CountIndex()
        self.last_entry = last_entry  # the last one that is known to be acknowledged
        self.deleted = False

    @property
    def sealed(self) -> bool:
        return self.metadata.is_closed

    def extend(self, last_entry: int, metadata: LedgerMetadata) -> None:
        """A client has learned of this end, which may be older than the known one if the ledger is still open."""
        if self.sealed:
            assert not metadata.is_closed or last_entry == self.last_entry, "a sealed ledger has one end"
            return
        assert not metadata.is_closed or last_entry >= self.last_entry, "an acknowledged entry was lost"
        if last_entry >= self.last_entry:
            self.last_entry, self.metadata = last_entry, metadata

    def check(self) -> None:
        """NoSuchLedger: this process deleted it."""
        if self.deleted:
            raise NoSuchLedger("the ledger was deleted", ledger=self.ledger)
