"""The schemas of the producers of received messages, for consumers that decode by the writer's schema.

A message names the version of the schema that its producer registered. The broker has that schema. An entry with a
version that is not known yet waits for it (`Unopened.block`); the request is repeated until the broker answers or the
consumer closes. A version that was deleted, or that this consumer cannot read by, makes `message.value` raise the
reason; the consumer goes on. It trusts the broker that a version never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.limits import WRITER_SCHEMAS_MAX
from magnetar.client.connection.backoff import Backoff, passing
from magnetar.client.connection.lookup import Lookup
from magnetar.client.message import Decoder
from magnetar.client.schema import Schema
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.proto import pb

log = get("client.consumer")


class WriterAware(Protocol):
    """A schema with values that are read by the definition of their writer."""

    def _reading(self, written: pb.Schema) -> Decoder[Any]:
        """Misuse: values of that schema cannot be read."""
        ...


class WriterSchemas:
    """One for a consumer, for all its topics. `None` in its place: the schema decodes without the writer's."""

    def __init__(self, lookup: Lookup, schema: WriterAware) -> None:
        self._lookup = lookup
        self._schema = schema
        self._decoders: dict[tuple[str, bytes], Decoder[Any]] = {}
        self._waiting: dict[tuple[str, bytes], list[Callable[[], None]]] = {}
        self._tasks = Owner("schemas of writers", self._crashed)

    def known(self, topic: str, version: bytes) -> Decoder[Any] | None:
        return self._decoders.get((topic, version))

    def request(self, topic: str, version: bytes, then: Callable[[], None]) -> None:
        """Calls `then` when the version is known."""
        waiting = self._waiting.get((topic, version))
        if waiting is not None:
            if then not in waiting:
                waiting.append(then)
            return
        self._waiting[topic, version] = [then]
        self._lookup.pool.runtime.spawn(self._tasks, self._get(topic, version))

    async def close(self) -> None:
        await self._tasks.close()

    async def _get(self, topic: str, version: bytes) -> None:
        runtime = self._lookup.pool.runtime
        backoff = Backoff(runtime.rng("client.schemas"))
        while True:
            try:
                written, _ = await self._lookup.schema(topic, version)
                decoder = self._schema._reading(written)
            except Misuse as error:
                decoder = _Unreadable(self._schema, error.what)
            except MagnetarError as error:
                if passing(error):
                    log.info("schema_request_failed", topic=topic, version=version.hex(), why=error)
                    await asyncio.sleep(backoff.next_s(error))
                    continue
                decoder = _Unreadable(self._schema, f"its writer's schema cannot be read: {error.what}")
            break
        if len(self._decoders) >= WRITER_SCHEMAS_MAX:
            del self._decoders[next(iter(self._decoders))]
        self._decoders[topic, version] = decoder
        for then in self._waiting.pop((topic, version)):
            then()

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("schema_request_crashed", error, name=name)


class _Unreadable:
    """Raises its reason for every message."""

    def __init__(self, schema: Any, why: str) -> None:
        self.kind = getattr(schema, "kind", type(schema))
        self._why = why

    def decode(self, data: bytes) -> Any:
        raise ValueError(self._why)


def writer_schemas(lookup: Lookup, schema: Schema[Any]) -> WriterSchemas | None:
    aware: Any = schema
    return WriterSchemas(lookup, aware) if hasattr(schema, "_reading") else None
