"""The durable record of one managed ledger, and the only place that changes it: one compare-and-set at a time.

JSON `{"v": 1, "ledgers": [...], ...}` in one metadata node; unknown fields survive a rewrite. Memory follows the
record, never the other way round: the chain is changed after the store has answered. An unexpected version means that
another broker owns the topic now: `Fenced`. It assumes that other brokers write too, and trusts its caller to know
which ledgers are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from magnetar.base.errors import BadVersion, Corrupt, Fenced, Refused, TopicNotFound
from magnetar.base.ids import Position
from magnetar.ledger.chain import Chain, LedgerSpan
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore

VERSION = 1
_LINK_FIELDS = {"id", "entries", "bytes", "messages", "closed_ms"}

Change = Callable[[list[LedgerSpan]], list[LedgerSpan]]


class LedgerRecord:
    def __init__(self, path: str, metadata: MetadataStore, token: str) -> None:
        self.path = path
        self.chain = Chain()
        self.terminated: Position | None = None
        self.properties: dict[str, str] = {}
        self.deleting = False
        self.created_ms = 0
        self._metadata = metadata
        self._token = token  # distinguishes our record from an equal one of a rival
        self._version = ABSENT
        self._unknown: dict[str, Any] = {}
        self._lock = asyncio.Lock()

    @classmethod
    async def load(cls, path: str, metadata: MetadataStore, token: str, *, create: bool) -> LedgerRecord:
        """The record as it stands; a missing one is made, or is TopicNotFound."""
        book = cls(path, metadata, token)
        node = await metadata.get(path)
        if node is None:
            if not create:
                raise TopicNotFound("topic not found", path=path)
            await book.commit()
        else:
            book._version = node.stat.version
            book.created_ms = node.stat.ctime_ms
            book._read(node.value)
        return book

    async def commit(
        self,
        change: Change | None = None,
        *,
        floor: Position | None = None,
        terminated: Position | None = None,
        properties: Mapping[str, str] | None = None,
        deleting: bool = False,
    ) -> None:
        """Writes the links as `change` returns them, and any other given field, then applies them in memory."""
        async with self._lock:
            await self._commit(change, floor, terminated, properties, deleting)

    @property
    def version(self) -> int:
        """Of the record as it was last read or written."""
        return self._version

    async def check_current(self) -> None:
        """Fenced: the record is not as it was read or written last."""
        async with self._lock:
            node = await self._metadata.fresh(self.path)
        if node is None or node.stat.version != self._version:
            raise Fenced("another owner has changed this topic's record", wire_code=6, path=self.path)

    async def rename(self, properties: Mapping[str, str], remove: Iterable[str] = ()) -> None:
        """Change some of the properties."""
        async with self._lock:
            kept = {key: value for key, value in self.properties.items() if key not in set(remove)}
            await self._commit(None, None, None, {**kept, **properties}, False)

    async def _commit(
        self,
        change: Change | None,
        floor: Position | None,
        terminated: Position | None,
        properties: Mapping[str, str] | None,
        deleting: bool,
    ) -> None:
        links = list(self.chain.links) if change is None else change(list(self.chain.links))
        floor = max((place for place in (floor, self.chain.floor) if place is not None), default=None)
        terminated = terminated or self.terminated
        named = dict(self.properties if properties is None else properties)
        value = self._encode(links, floor, terminated, named, deleting)
        try:
            stat = await put_checked(self._metadata, self.path, value, expected=self._version)
        except BadVersion as error:
            raise Fenced("another owner has changed this topic's record", wire_code=6, path=self.path) from error
        self._version = stat.version
        self.created_ms = stat.ctime_ms
        self.chain.install(links, floor)
        self.terminated, self.properties, self.deleting = terminated, named, deleting

    def _encode(
        self,
        links: list[LedgerSpan],
        floor: Position | None,
        terminated: Position | None,
        properties: dict[str, str],
        deleting: bool,
    ) -> bytes:
        record: dict[str, Any] = {**self._unknown, "v": VERSION, "by": self._token}
        record["ledgers"] = [_encode_link(link) for link in links]
        if floor is not None:
            record["floor"] = list(floor)
        if terminated is not None:
            record["terminated"] = list(terminated)
        if properties:
            record["properties"] = properties
        if deleting:
            record["deleting"] = True
        return msgspec.json.encode(record)

    def _read(self, value: bytes) -> None:
        record = decode_record(self.path, value, VERSION)
        try:
            links = [_decode_link(item) for item in record.pop("ledgers", [])]
            floor = _decode_position(record.pop("floor", None))
            self.terminated = _decode_position(record.pop("terminated", None))
            self.properties = {str(key): str(item) for key, item in record.pop("properties", {}).items()}
            self.deleting = bool(record.pop("deleting", False))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise Corrupt("the record of a topic cannot be read", path=self.path) from error
        if any(low.ledger >= high.ledger for low, high in pairwise(links)):
            raise Corrupt("the record of a topic names its ledgers out of order", path=self.path)
        self.chain.install(links, floor)
        self._unknown = record


def decode_record(path: str, value: bytes, version: int) -> dict[str, Any]:
    """The fields of a versioned record, without `v` and `by`; nothing at all is an empty record."""
    try:
        record = msgspec.json.decode(value) if value else {}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Corrupt("a record cannot be read", path=path) from error
    if not isinstance(record, dict):
        raise Corrupt("a record is not an object", path=path)
    stored_version = record.pop("v", version)
    record.pop("by", None)
    if not isinstance(stored_version, int) or stored_version > version:
        raise Refused(
            f"the record has format version {stored_version}, this node reads up to {version}: start a node of the "
            "version that wrote it",
            path=path,
        )
    return record


def decode_links(path: str, value: bytes) -> list[LedgerSpan]:
    """The ledgers that a topic's record names, without opening the topic; none while it is being deleted."""
    return decode_end(path, value)[0]


def decode_end(path: str, value: bytes) -> tuple[list[LedgerSpan], bool]:
    """The same, and whether the topic takes no more messages."""
    record = decode_record(path, value, VERSION)
    try:
        links = [] if record.get("deleting") else [_decode_link(item) for item in record.get("ledgers", [])]
        return links, record.get("terminated") is not None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise Corrupt("the record of a topic cannot be read", path=path) from error


def _encode_link(link: LedgerSpan) -> dict[str, Any]:
    if not link.closed_ms:
        return {**link.extra, "id": link.ledger}  # its end is known only after a recovery
    return {
        **link.extra,
        "id": link.ledger,
        "entries": link.entries,
        "bytes": link.bytes,
        "messages": link.messages,
        "closed_ms": link.closed_ms,
    }


def _decode_link(item: dict[str, Any]) -> LedgerSpan:
    numbers = [int(item.get(name, 0)) for name in ("entries", "bytes", "messages", "closed_ms")]
    if min(numbers) < 0:
        raise ValueError("a negative count")
    extra = {name: value for name, value in item.items() if name not in _LINK_FIELDS}
    return LedgerSpan(int(item["id"]), *numbers[:3], closed_ms=numbers[3], extra=extra)


def _decode_position(item: Any) -> Position | None:
    if item is None:
        return None
    ledger, entry = item
    return Position(int(ledger), int(entry))
