"""Brokers over REST: who they are, whether they work, how they are configured, what they measure."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin import paths
from magnetar.client.admin.aio.transport import RestTransport
from magnetar.client.documents.brokers import ConnectionInfo, InternalConfiguration, LeaderBroker, OwnedNamespace

Names = list[str]
Connections = list[ConnectionInfo]

_ROOT = f"{paths.ROOT}/brokers"


class Brokers:
    def __init__(self, exchange: RestTransport) -> None:
        self._exchange = exchange

    async def names(self, cluster: str | None = None) -> Names:
        """Of one cluster, or of the one asked."""
        tail = "" if cluster is None else f"/{paths.part(cluster)}"
        return await self._exchange.read(f"{_ROOT}{tail}", Names)

    async def list(self, cluster: str | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names(cluster)

    async def leader(self) -> LeaderBroker:
        return await self._exchange.read(f"{_ROOT}/leaderBroker", LeaderBroker)

    async def owned_namespaces(self, cluster: str, broker: str) -> dict[str, OwnedNamespace]:
        """The bundles a broker serves."""
        path = f"{_ROOT}/{paths.part(cluster)}/{paths.part(broker)}/ownedNamespaces"
        return await self._exchange.read(path, dict[str, OwnedNamespace])

    async def connections(self) -> Connections:
        """The clients of the broker that is asked, the oldest connection first. Magnetar only."""
        return await self._exchange.read(f"{_ROOT}/connections", Connections)

    async def version(self) -> str:
        return await self._exchange.text(f"{_ROOT}/version")

    async def internal_configuration(self) -> InternalConfiguration:
        return await self._exchange.read(f"{_ROOT}/internal-configuration", InternalConfiguration)

    # Probes: each raises NotReady with the reason where the answer is no

    async def live(self) -> None:
        """Whether the process is alive. Magnetar only."""
        await self._exchange.text("/livez")

    async def ready(self) -> None:
        """Whether clients may come."""
        await self._exchange.text(f"{_ROOT}/ready")

    async def ready_for_balancers(self, path: str = "/readyz") -> None:
        """The same under the names load balancers know: /readyz (Magnetar only) and /status.html."""
        await self._exchange.text(path)

    async def healthy(self, broker: str | None = None) -> None:
        """Whether the broker works, through to its metadata."""
        await self._exchange.text(f"{_ROOT}/health", {"brokerId": broker})

    # Settings

    async def dynamic_settings(self) -> Names:
        """The names of those that may be changed while running."""
        return await self._exchange.read(f"{_ROOT}/configuration", Names)

    async def changed_settings(self) -> dict[str, str]:
        """What was changed while running."""
        return await self._exchange.read(f"{_ROOT}/configuration/values", dict[str, str])

    async def settings(self) -> dict[str, str | None]:
        """Every setting as it holds now."""
        return await self._exchange.read(f"{_ROOT}/configuration/runtime", dict[str, str | None])

    async def change_setting(self, name: str, value: str) -> None:
        """Of all brokers, at once, for good."""
        await self._exchange.send("POST", f"{_ROOT}/configuration/{paths.part(name)}/{paths.part(value)}")

    async def restore_setting(self, name: str) -> None:
        """Take such a change back."""
        await self._exchange.send("DELETE", f"{_ROOT}/configuration/{paths.part(name)}")

    # Everything at once

    async def metrics(self) -> str:
        """Prometheus text."""
        return await self._exchange.text("/metrics")

    async def description(self) -> dict[str, Any]:
        """The OpenAPI description of the server. Magnetar only."""
        return await self._exchange.read("/openapi.json", dict[str, Any])
