"""Questions to the cluster before anything is attached: how many partitions, which broker, which topics, which schema.

Each call is one question with the answer or the broker's error; repeating is the caller's business (`backoff.persist`).
Redirects are followed, a bounded number of times. Several hosts in the service URL are asked in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from magnetar.base.errors import NotReady, Unavailable, Unreachable
from magnetar.base.limits import CLIENT_OPERATION_S, CLIENT_REDIRECTS_MAX
from magnetar.client.connection.address import address, addresses
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.pool import Pool
from magnetar.wire.proto import pb

Mode = Literal["PERSISTENT", "NON_PERSISTENT", "ALL"]

_K = pb.BaseCommand


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a topic's broker: `proxied` is its host and port where `url` is that of a proxy."""

    url: str
    proxied: str = ""


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of a namespace; `changed` False: as the hash that was sent says, and none are listed."""

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
        self._listener = listener
        self._services = [found.url for found in addresses(service_url)]
        self._service_url = service_url
        self._turn = 0

    async def service(self) -> Connection:
        """A connection to the service URL: the first of its hosts that answers."""
        others: Unavailable | None = None  # of those that did not refuse: it may come to answer
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

    async def partitions(self, topic: str, *, create: bool = True) -> int:
        """How many partitions a topic has, 0 if it is not partitioned. Without `create` a topic that does not exist is
        `TopicNotFound`, where the broker knows the difference.
        """
        connection = await self.service()
        command = pb.BaseCommand(type=_K.PARTITIONED_METADATA)
        asked = command.partitionMetadata
        asked.topic = topic
        asked.request_id = connection.next_request_id()
        if not create and connection.features.supports_get_partitioned_metadata_without_auto_creation:
            asked.metadata_auto_creation_enabled = False
        reply = await connection.request(command, asked.request_id, timeout_s=self.timeout_s)
        return reply.partitionMetadataResponse.partitions

    async def broker(self, topic: str) -> Route:
        connection = await self.service()
        authoritative = False
        for _ in range(CLIENT_REDIRECTS_MAX + 1):
            command = pb.BaseCommand(type=_K.LOOKUP)
            asked = command.lookupTopic
            asked.topic = topic
            asked.request_id = connection.next_request_id()
            asked.authoritative = authoritative
            asked.advertised_listener_name = self._listener
            reply = await connection.request(command, asked.request_id, timeout_s=self.timeout_s)
            found = reply.lookupTopicResponse
            if not found.brokerServiceUrl:
                raise NotReady("the lookup answered without a broker's URL", topic=topic)
            if found.response == pb.CommandLookupTopicResponse.Connect:
                if found.proxy_through_service_url:
                    return Route(connection.url, str(address(found.brokerServiceUrl)))
                return Route(found.brokerServiceUrl)
            authoritative = found.authoritative
            connection = await self.pool.get(found.brokerServiceUrl)
        raise NotReady("brokers sent the lookup round in circles", topic=topic, redirects=CLIENT_REDIRECTS_MAX)

    async def topics(self, namespace: str, mode: Mode = "PERSISTENT", *, pattern: str = "", hash: str = "") -> Topics:
        """Those that exist now. Brokers that do not know `pattern` list everything (`filtered` says which)."""
        connection = await self.service()
        command = pb.BaseCommand(type=_K.GET_TOPICS_OF_NAMESPACE)
        asked = command.getTopicsOfNamespace
        asked.request_id = connection.next_request_id()
        asked.namespace = namespace
        asked.mode = getattr(pb.CommandGetTopicsOfNamespace, mode)
        if pattern:
            asked.topics_pattern = pattern
        if hash:
            asked.topics_hash = hash
        reply = await connection.request(command, asked.request_id, timeout_s=self.timeout_s)
        found = reply.getTopicsOfNamespaceResponse
        return Topics(list(found.topics), found.topics_hash, found.filtered, found.changed)

    async def schema(self, topic: str, version: bytes | None = None) -> tuple[pb.Schema, bytes]:
        """A topic's schema, the newest unless a version is given, and its version."""
        connection = await self.service()
        command = pb.BaseCommand(type=_K.GET_SCHEMA)
        asked = command.getSchema
        asked.request_id = connection.next_request_id()
        asked.topic = topic
        if version is not None:
            asked.schema_version = version
        reply = await connection.request(command, asked.request_id, timeout_s=self.timeout_s)
        return reply.getSchemaResponse.schema, reply.getSchemaResponse.schema_version
