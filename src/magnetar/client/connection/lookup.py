"""Requests to the cluster before a producer or consumer attaches: the number of partitions, the broker of a topic, the
topics of a namespace, a schema.

Each call sends one request and returns the answer or raises the broker's error; the caller repeats it
(`backoff.persist`). Redirects are followed a bounded number of times. Several hosts in the service URL are tried in an
order of chance, so that the clients of a cluster spread over its brokers. A host that cannot answer is left for the
next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from magnetar.base.errors import NotReady, Unavailable, Unknown, Unreachable
from magnetar.base.limits import CLIENT_OPERATION_S, CLIENT_REDIRECTS_MAX
from magnetar.client.connection.address import address, addresses
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.pool import Pool
from magnetar.wire.proto import pb

Mode = Literal["PERSISTENT", "NON_PERSISTENT", "ALL"]

_K = pb.BaseCommand


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a topic's broker. If `url` is that of a proxy, `proxied` is the host and port of the broker."""

    url: str
    proxied: str = ""


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of a namespace. `changed` False: the hash that was sent is still current, and the list is empty."""

    names: list[str]
    hash: str
    filtered: bool
    changed: bool


class Lookup:
    def __init__(
        self, pool: Pool, service_url: str, *, listener: str = "", timeout_s: float = CLIENT_OPERATION_S
    ) -> None:
        self.pool = pool
        self.timeout_s = timeout_s
        self.listener = listener
        self._services = [found.url for found in addresses(service_url)]
        pool.runtime.rng("client.hosts").shuffle(self._services)
        self._service_url = service_url
        self._turn = 0

    async def service(self) -> Connection:
        """A connection to the service URL: to the first of its hosts that answers."""
        others: Unavailable | None = None  # the error of a host that did not refuse: it may answer later
        for left in reversed(range(len(self._services))):
            try:
                return await self.pool.get(self._services[self._turn])
            except Unavailable as error:
                self._turn = (self._turn + 1) % len(self._services)
                if not isinstance(error, Unreachable):
                    others = error
                if not left:
                    raise (others or Unreachable(error.what, url=self._service_url)) from None
        raise AssertionError("a service URL has at least one host")

    @contextmanager
    def moving_on(self, connection: Connection) -> Iterator[None]:
        """A request to a host of the service URL. After an error that another host may not have, the next request goes
        to the next host."""
        try:
            yield
        except (Unavailable, Unknown):
            if self._services[self._turn] == connection.url:
                self._turn = (self._turn + 1) % len(self._services)
            raise

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """The number of partitions of a topic, 0 if it is not partitioned. Without `create` a topic that does not exist
        raises `TopicNotFound`, if the broker supports the distinction.
        """
        connection = await self.service()
        command = pb.BaseCommand(type=_K.PARTITIONED_METADATA)
        request = command.partitionMetadata
        request.topic = topic
        request.request_id = connection.next_request_id()
        if not create and connection.features.supports_get_partitioned_metadata_without_auto_creation:
            request.metadata_auto_creation_enabled = False
        with self.moving_on(connection):
            reply = await connection.request(command, request.request_id, timeout_s=self.timeout_s)
        return reply.partitionMetadataResponse.partitions

    async def broker(self, topic: str) -> Route:
        connection = await self.service()
        with self.moving_on(connection):
            return await self._broker(topic, connection)

    async def _broker(self, topic: str, connection: Connection) -> Route:
        authoritative = False
        for _ in range(CLIENT_REDIRECTS_MAX + 1):
            command = pb.BaseCommand(type=_K.LOOKUP)
            request = command.lookupTopic
            request.topic = topic
            request.request_id = connection.next_request_id()
            request.authoritative = authoritative
            request.advertised_listener_name = self.listener
            reply = await connection.request(command, request.request_id, timeout_s=self.timeout_s)
            response = reply.lookupTopicResponse
            if not response.brokerServiceUrl:
                raise NotReady("the lookup reply has no broker URL", topic=topic)
            if response.response == pb.CommandLookupTopicResponse.Connect:
                if response.proxy_through_service_url:
                    return Route(connection.url, str(address(response.brokerServiceUrl)))
                return Route(response.brokerServiceUrl)
            authoritative = response.authoritative
            connection = await self.pool.get(response.brokerServiceUrl)
        raise NotReady("too many redirects during the lookup", topic=topic, redirects=CLIENT_REDIRECTS_MAX)

    async def topics(self, namespace: str, mode: Mode = "PERSISTENT", *, pattern: str = "", hash: str = "") -> Topics:
        """The topics that exist now. A broker without support for `pattern` lists all topics (`filtered` is False)."""
        connection = await self.service()
        command = pb.BaseCommand(type=_K.GET_TOPICS_OF_NAMESPACE)
        request = command.getTopicsOfNamespace
        request.request_id = connection.next_request_id()
        request.namespace = namespace
        request.mode = getattr(pb.CommandGetTopicsOfNamespace, mode)
        if pattern:
            request.topics_pattern = pattern
        if hash:
            request.topics_hash = hash
        with self.moving_on(connection):
            reply = await connection.request(command, request.request_id, timeout_s=self.timeout_s)
        response = reply.getTopicsOfNamespaceResponse
        return Topics(list(response.topics), response.topics_hash, response.filtered, response.changed)

    async def schema(self, topic: str, version: bytes | None = None) -> tuple[pb.Schema, bytes]:
        """A topic's schema, the newest unless a version is given, and its version."""
        connection = await self.service()
        command = pb.BaseCommand(type=_K.GET_SCHEMA)
        request = command.getSchema
        request.request_id = connection.next_request_id()
        request.topic = topic
        if version is not None:
            request.schema_version = version
        with self.moving_on(connection):
            reply = await connection.request(command, request.request_id, timeout_s=self.timeout_s)
        return reply.getSchemaResponse.schema, reply.getSchemaResponse.schema_version
