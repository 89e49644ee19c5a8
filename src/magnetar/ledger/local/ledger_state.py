"""The engine's state of one ledger: its record in the metadata store, its index, and the writer that may append.

Only the loop touches it. The record keeps fields it does not know, so that an older Magnetar does not drop what a newer
one wrote. A ledger that is refused takes no more runs; `settled` waits until those already taken are answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from magnetar.base.errors import Corrupt, MagnetarError, Refused
from magnetar.ledger.local.index import LedgerIndex
from magnetar.ledger.local.scan import Damage

LEDGERS_PATH = "/ledgers/local"
COUNTER_PATH = "/counters/ledger"
FORMAT = 1


def path_of(ledger: int) -> str:
    return f"{LEDGERS_PATH}/{ledger:019d}"


class LedgerState:
    __slots__ = (
        "changing",
        "custom",
        "deleted",
        "doubt",
        "epoch",
        "fields",
        "index",
        "last_sealed",
        "ledger",
        "next_entry",
        "pending",
        "refusal",
        "sealed",
        "version",
        "waiting",
    )

    def __init__(self, ledger: int, custom: dict[str, str], epoch: int = 1) -> None:
        self.ledger = ledger
        self.custom = custom
        self.epoch = epoch
        self.sealed = False
        self.last_sealed = -1
        self.version = -1  # of the record in the metadata store
        self.fields: dict[str, Any] = {}  # the record as it was read, with what we do not know
        self.index = LedgerIndex()
        self.next_entry = 0  # the number the next run's first entry gets
        self.pending = 0  # runs taken and not yet answered
        self.refusal: MagnetarError | None = None  # why no more runs are taken
        self.deleted = False
        self.doubt: Damage | None = None  # damage that may have taken the end of this ledger
        self.waiting: list[asyncio.Future[None]] = []
        self.changing = asyncio.Lock()  # one change of the record at a time; rivals elsewhere meet the compare-and-set

    @property
    def last(self) -> int:
        """The last entry that can be read: all of the index is acknowledged or was found durable at the start."""
        return self.index.entries_total - 1

    def refuse(self, error: MagnetarError) -> None:
        if self.refusal is None:
            self.refusal = error

    def wake(self) -> None:
        """Nothing is pending any more."""
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def settled(self) -> None:
        """Until every run taken so far was answered. Comes after a refusal, so there is an end to it."""
        while self.pending:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(future)
            await future

    def opened(self, epoch: int) -> bytes:
        """The record of an open ledger in this epoch; fields that are not known are kept."""
        return self._document(epoch, state="open", last=-1, bytes=0)

    def closed(self) -> bytes:
        """The record that seals the ledger at its last entry."""
        return self._document(self.epoch, state="sealed", last=self.last, bytes=self.index.bytes_total)

    def _document(self, epoch: int, **fields: object) -> bytes:
        return msgspec.json.encode({**self.fields, "format": FORMAT, "epoch": epoch, "custom": self.custom, **fields})

    def adopt(self, value: bytes, version: int) -> None:
        """Take over the record as the store has it."""
        fields = self.fields = parse(value, self.ledger)
        self.version = version
        self.epoch = fields["epoch"]
        self.sealed = fields["state"] == "sealed"
        self.last_sealed = fields["last"]
        self.custom = fields["custom"]


def parse(value: bytes, ledger: int) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(value, type=dict[str, Any])
        types = {"format": int, "epoch": int, "state": str, "last": int, "custom": dict}
        if not all(isinstance(fields.get(name), kind) for name, kind in types.items()):
            raise Corrupt("the record of a ledger lacks a field", ledger=ledger)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the record of a ledger cannot be read: {error}", ledger=ledger) from error
    if fields["format"] > FORMAT:
        raise Refused(
            f"the record of ledger {ledger} has format {fields['format']}, this Magnetar reads formats up to {FORMAT}: "
            "start the newer Magnetar that wrote it",
            ledger=ledger,
        )
    return fields
