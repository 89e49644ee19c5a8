"""The versions of a topic's schema, counted from 0 and never reused.

One small record lists the versions and is changed by compare-and-set. Each body is a separate record, named after its
content, so that two clients which add the same schema concurrently write the same bytes and get the same version. A
deletion is a version without a body, and later versions continue the count. AUTO_CONSUME is a request of a client and
never a stored schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from magnetar.base.errors import BadVersion, Corrupt, LimitExceeded, Misuse, NotFound, Refused
from magnetar.base.limits import SCHEMA_VERSIONS_MAX
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.runtime.runtime import Runtime

AUTO_CONSUME = 21  # Schema.Type on the wire
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Schema:
    version: int
    type: int  # Schema.Type on the wire
    data: bytes
    properties: dict[str, str] = field(default_factory=dict)
    timestamp_ms: int = 0


class IndexedVersion(msgspec.Struct, frozen=True):
    """One version in the index; `digest` "" is a deletion."""

    digest: str
    timestamp_ms: int


class Index(msgspec.Struct, frozen=True):
    versions: list[IndexedVersion]
    v: int = FORMAT

    def live(self) -> list[tuple[int, IndexedVersion]]:
        """Versions since the last deletion."""
        start = max((number + 1 for number, one in enumerate(self.versions) if not one.digest), default=0)
        return list(enumerate(self.versions))[start:]


class Body(msgspec.Struct, frozen=True):
    type: int
    data: bytes
    properties: dict[str, str]
    v: int = FORMAT


class Registry:
    def __init__(self, store: MetadataStore, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._indexes: Cache[Index] = Cache(store, paths.SCHEMAS, decode=_index, encode=msgspec.json.encode)
        self._bodies: Cache[Body] = Cache(store, paths.SCHEMAS, decode=_body, encode=msgspec.msgpack.encode)

    async def add(self, schema_id: str, type: int, data: bytes, properties: Mapping[str, str]) -> int:
        """The version of an equal schema (type and data) if it exists, otherwise the next version. LimitExceeded: the
        schema is too large, or there are too many."""
        if type == AUTO_CONSUME:
            raise Misuse("AUTO_CONSUME is not a schema and cannot be stored", schema=schema_id)
        digest = _digest(type, data)
        stored_index = await self._indexes.get(paths.schema(schema_id))
        if stored_index is not None and (stored_version := _find(stored_index, digest)) is not None:
            return stored_version
        await self._write_body(schema_id, digest, Body(type, data, dict(properties)))
        now = self._runtime.wall()

        def listed(before: Index | None) -> Index:
            index = before or Index([])
            if _find(index, digest) is not None:
                return index
            if len(index.versions) >= SCHEMA_VERSIONS_MAX:
                raise LimitExceeded("the topic has too many schema versions", schema=schema_id, max=SCHEMA_VERSIONS_MAX)
            return Index([*index.versions, IndexedVersion(digest, now)])

        after = await self._indexes.update(paths.schema(schema_id), listed)
        version = _find(after, digest)
        assert version is not None
        return version

    async def get(self, schema_id: str, version: int | None = None) -> Schema:
        """The given version, or the newest. NotFound: it does not exist or was deleted."""
        index = await self._indexes.get(paths.schema(schema_id))
        live = index.live() if index is not None else []
        if index is None or not live:
            raise NotFound("Schema not found", schema=schema_id)
        number = live[-1][0] if version is None else version
        if not 0 <= number < len(index.versions) or not index.versions[number].digest:
            raise NotFound("Schema not found", schema=schema_id, version=number)
        return await self._read(schema_id, number, index.versions[number])

    async def latest(self, schema_id: str) -> Schema | None:
        try:
            return await self.get(schema_id)
        except NotFound:
            return None

    async def versions(self, schema_id: str) -> list[Schema]:
        """All since the last deletion, oldest first."""
        index = await self._indexes.get(paths.schema(schema_id))
        return [await self._read(schema_id, number, one) for number, one in (index.live() if index else [])]

    async def find(self, schema_id: str, type: int, data: bytes) -> int:
        """The version of an equal schema; -1 if there is none."""
        index = await self._indexes.get(paths.schema(schema_id))
        version = None if index is None else _find(index, _digest(type, data))
        return -1 if version is None else version

    async def delete(self, schema_id: str, *, force: bool = False) -> int:
        """The version that records the deletion; `force` deletes everything, and versions start from 0 again."""
        if force:
            await self._store.delete_tree(paths.schema(schema_id))
            return -1
        now = self._runtime.wall()

        def gone(before: Index | None) -> Index:
            if before is None or not before.live():
                raise NotFound("Schema not found", schema=schema_id)
            return Index([*before.versions, IndexedVersion("", now)])

        return len((await self._indexes.update(paths.schema(schema_id), gone)).versions) - 1

    def close(self) -> None:
        self._indexes.close()
        self._bodies.close()

    async def _write_body(self, schema_id: str, digest: str, body: Body) -> None:
        try:
            await self._store.put(paths.schema_body(schema_id, digest), msgspec.msgpack.encode(body), expected=ABSENT)
        except BadVersion:
            pass  # another caller wrote the same content before

    async def _read(self, schema_id: str, number: int, listed: IndexedVersion) -> Schema:
        body = await self._bodies.get(paths.schema_body(schema_id, listed.digest))
        if body is None:
            raise Corrupt("the stored schema version has no body", schema=schema_id, version=number)
        return Schema(number, body.type, body.data, dict(body.properties), listed.timestamp_ms)


def _digest(type: int, data: bytes) -> str:
    """Type and data identify a schema; properties do not, as in Pulsar."""
    return hashlib.sha256(b"%d:" % type + data).hexdigest()


def _find(index: Index, digest: str) -> int | None:
    return next((number for number, one in index.live() if one.digest == digest), None)


def _index(data: bytes) -> Index:
    index = msgspec.json.decode(data, type=Index)
    _check_format(index.v)
    return index


def _body(data: bytes) -> Body:
    body = msgspec.msgpack.decode(data, type=Body)
    _check_format(body.v)
    return body


def _check_format(version: int) -> None:
    if version > FORMAT:
        raise Refused(
            f"the schema was written in format {version}, this version reads up to {FORMAT}: start a newer Magnetar"
        )
