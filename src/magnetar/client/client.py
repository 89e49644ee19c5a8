"""The asyncio client: one per application, made of a service URL; everything else is made from it.

It owns the connections and the budget of bytes on their way, and closes what was made from it. It refuses to do
anything in another loop than the one it was first used in. Nothing happens before the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from magnetar.base.errors import Closed, MagnetarError, Misuse
from magnetar.base.limits import (
    CLIENT_OPERATION_S,
    CLIENT_PENDING_BYTES_MAX,
    CLIENT_PENDING_MESSAGES_MAX,
    CLIENT_SEND_S,
)
from magnetar.base.names import full_name, topic_name
from magnetar.client.address import addresses
from magnetar.client.backoff import persist
from magnetar.client.batch import Batching
from magnetar.client.budget import Budget
from magnetar.client.lookup import Lookup
from magnetar.client.pool import Pool
from magnetar.client.producer import AccessMode, Compression, Producer
from magnetar.client.producing import Opening
from magnetar.client.router import Chooser, Hashing, Router, Routing
from magnetar.client.schemas import BYTES, Schema
from magnetar.observe.log import get
from magnetar.runtime.real import RealRuntime
from magnetar.runtime.runtime import Runtime

log = get("client")

T = TypeVar("T")

BATCHING = Batching()


class Client:
    """`async with Client("pulsar://localhost:6650") as client: ...`. Safe to share within one loop."""

    def __init__(
        self,
        url: str,
        *,
        runtime: Runtime | None = None,
        operation_timeout_s: float = CLIENT_OPERATION_S,
        listener: str = "",
        pending_bytes_max: int = CLIENT_PENDING_BYTES_MAX,
        pending_messages_max: int = CLIENT_PENDING_MESSAGES_MAX,
    ) -> None:
        addresses(url)  # a URL that cannot be is refused here, not at the first use
        self.url = url
        self.closed = False
        self.operation_timeout_s = operation_timeout_s
        self._own_runtime = RealRuntime() if runtime is None else None
        self.runtime: Runtime = runtime if self._own_runtime is None else self._own_runtime  # type: ignore[assignment]
        self.budget = Budget(pending_bytes_max, pending_messages_max)
        self.pool = Pool(self.runtime)
        self.lookup = Lookup(self.pool, url, listener=listener, timeout_s=operation_timeout_s)
        self._open: dict[Any, None] = {}  # what was made from this client, in order

    @overload
    async def create_producer(
        self,
        topic: str,
        *,
        name: str = ...,
        batching: Batching | None = ...,
        compression: Compression = ...,
        chunking: bool = ...,
        routing: Routing | Chooser = ...,
        hashing: Hashing = ...,
        access_mode: AccessMode = ...,
        send_timeout_s: float = ...,
        initial_sequence_id: int | None = ...,
        properties: Mapping[str, str] | None = ...,
        initial_subscription: str = ...,
    ) -> Producer[bytes]: ...

    @overload
    async def create_producer(
        self,
        topic: str,
        *,
        schema: Schema[T],
        name: str = ...,
        batching: Batching | None = ...,
        compression: Compression = ...,
        chunking: bool = ...,
        routing: Routing | Chooser = ...,
        hashing: Hashing = ...,
        access_mode: AccessMode = ...,
        send_timeout_s: float = ...,
        initial_sequence_id: int | None = ...,
        properties: Mapping[str, str] | None = ...,
        initial_subscription: str = ...,
    ) -> Producer[T]: ...

    async def create_producer(
        self,
        topic: str,
        *,
        schema: Schema[Any] = BYTES,
        name: str = "",
        batching: Batching | None = BATCHING,
        compression: Compression = Compression.NONE,
        chunking: bool = False,
        routing: Routing | Chooser = "round_robin",
        hashing: Hashing = "java",
        access_mode: AccessMode = AccessMode.SHARED,
        send_timeout_s: float = CLIENT_SEND_S,
        initial_sequence_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        initial_subscription: str = "",
    ) -> Producer[Any]:
        """A producer, attached to its broker (to every partition's broker). `batching` None sends every message as an
        entry of its own. `send_timeout_s` 0 waits for ever.
        """
        self._check()
        named = topic_name(topic)
        if chunking and not named.is_persistent:
            raise Misuse("chunks need a persistent topic", topic=topic)
        opening = Opening(
            name=name,
            access_mode=access_mode.value,
            batching=batching,
            chunking=chunking,
            compression=compression.value,
            schema=schema.info(),
            properties=dict(properties or {}),
            initial_sequence_id=initial_sequence_id,
            initial_subscription=initial_subscription,
            send_timeout_s=send_timeout_s,
            operation_timeout_s=self.operation_timeout_s,
        )
        producer: Producer[Any] = Producer(
            self.lookup,
            str(named),
            opening,
            schema=schema,
            router=Router(routing, hashing, self.runtime.rng("client.router")),
            budget=self.budget,
            closed=self.forget,
        )
        self.remember(producer)
        try:
            await producer.start()
        except BaseException:
            await producer.close(flush=False)
            raise
        return producer

    async def partitions(self, topic: str) -> list[str]:
        """The names of a topic's partitions; the topic itself where it has none. Creates nothing."""
        self._check()
        named = topic_name(full_name(topic))
        count = await persist(
            self.runtime,
            self.operation_timeout_s,
            lambda: self.lookup.partitions(str(named), create=False),
            what=f"partitions of {topic}",
        )
        return [str(named.partition(index)) for index in range(count)] or [str(named)]

    async def close(self) -> None:
        """Close everything made from this client: producers store what they were given. Raises the first error, after
        all of it is closed.
        """
        if self.closed:
            return
        self.closed = True
        errors: list[BaseException] = []
        for made in list(self._open):
            try:
                await made.close()
            except MagnetarError as error:
                errors.append(error)
        await self._end()
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        self.closed = True  # something failed already: leave, do not wait for what may never be stored
        for made in list(self._open):
            try:
                await (made.close(flush=False) if isinstance(made, Producer) else made.close())
            except MagnetarError as also:
                log.info("close failed", why=also)
        await self._end()

    # For what is made from it

    def remember(self, made: Any) -> None:
        self._open[made] = None

    def forget(self, made: Any) -> None:
        self._open.pop(made, None)

    def _check(self) -> None:
        if self.closed:
            raise Closed("the client is closed")

    async def _end(self) -> None:
        await asyncio.shield(self.pool.close())
        if self._own_runtime is not None:
            self._own_runtime.close()
