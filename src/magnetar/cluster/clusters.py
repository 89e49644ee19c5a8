"""The known clusters: this one and those it may replicate with. These are records only; no broker connects to another
cluster."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from magnetar.base.errors import AlreadyExists, BadVersion, InvalidName, Misuse, NotFound
from magnetar.base.names import check_entity
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import MetadataStore

ClusterData = dict[str, Any]  # the document as Pulsar has it; unknown fields are kept

_URLS = {
    "serviceUrl": (("http",), "Illegal service url, example: http://pulsar.example.com:8080"),
    "serviceUrlTls": (("https",), "Illegal service tls url, example: https://pulsar.example.com:8443"),
    "brokerServiceUrl": (("pulsar",), "Illegal broker service url, example: pulsar://pulsar.example.com:6650"),
    "brokerServiceUrlTls": (
        ("pulsar+ssl",),
        "Illegal broker service tls url, example: pulsar+ssl://pulsar.example.com:6651",
    ),
}
_DEFAULTS: ClusterData = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
}


class Clusters:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._cache: Cache[ClusterData] = Cache(store, paths.CLUSTERS, decode=_decode, encode=msgspec.json.encode)

    async def names(self) -> list[str]:
        return await self._store.children(paths.CLUSTERS)

    async def exists(self, name: str) -> bool:
        return await self._cache.get(paths.cluster(name)) is not None

    async def get(self, name: str) -> ClusterData:
        cluster = await self._cache.get(paths.cluster(name))
        if cluster is None:
            raise NotFound("Cluster does not exist", cluster=name)
        return cluster

    async def create(self, name: str, data: ClusterData) -> None:
        try:
            check_entity(name)
        except InvalidName:
            raise Misuse("Cluster name is not valid", cluster=name) from None
        try:
            await self._cache.create(paths.cluster(name), _checked(data))
        except BadVersion:
            raise AlreadyExists("Cluster already exists", cluster=name) from None

    async def update(self, name: str, data: ClusterData) -> None:
        def replaced(before: ClusterData | None) -> ClusterData:
            if before is None:
                raise NotFound("Cluster does not exist", cluster=name)
            return _checked(data)

        await self._cache.update(paths.cluster(name), replaced)

    async def delete(self, name: str) -> None:
        """Tenants keep a deleted cluster in their lists, as in Pulsar."""
        await self.get(name)
        await self._cache.delete(paths.cluster(name))

    def close(self) -> None:
        self._cache.close()


def _checked(data: ClusterData) -> ClusterData:
    for key, (schemes, words) in _URLS.items():
        url = data.get(key)
        if url in (None, ""):
            continue
        try:
            parts = urlsplit(url) if isinstance(url, str) else None
        except ValueError:
            parts = None
        if parts is None or parts.scheme not in schemes or not parts.netloc:
            raise Misuse(words, http_status=400)
    return {**{key: value for key, value in data.items() if value is not None}, **_missing(data)}


def _missing(data: ClusterData) -> ClusterData:
    return {key: value for key, value in _DEFAULTS.items() if data.get(key) is None}


def _decode(data: bytes) -> ClusterData:
    return msgspec.json.decode(data, type=dict[str, Any])
