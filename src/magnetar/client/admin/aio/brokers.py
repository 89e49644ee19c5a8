"""Brokers over REST: names, health, configuration, metrics."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.documents.broker_stats import LoadReport
from magnetar.client.documents.brokers import ConnectionInfo, InternalConfiguration, LeaderBroker, OwnedNamespace

Names = list[str]
Connections = list[ConnectionInfo]
TopicsByBundle = dict[str, dict[str, dict[str, dict[str, Any]]]]

_ROOT = f"{paths.ROOT}/brokers"


class Brokers(AdminResource):
    async def names(self, cluster: str | None = None) -> Names:
        """The brokers of one cluster; by default of the server's cluster."""
        tail = "" if cluster is None else f"/{paths.part(cluster)}"
        return await self._exchange.read(f"{_ROOT}{tail}", Names)

    async def list(self, cluster: str | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names(cluster)

    async def leader(self) -> LeaderBroker:
        return await self._exchange.read(f"{_ROOT}/leaderBroker", LeaderBroker)

    async def owned_namespaces(self, cluster: str, broker: str) -> dict[str, OwnedNamespace]:
        """The bundles that a broker serves."""
        path = f"{_ROOT}/{paths.part(cluster)}/{paths.part(broker)}/ownedNamespaces"
        return await self._exchange.read(path, dict[str, OwnedNamespace])

    async def connections(self) -> Connections:
        """The clients of the broker that answers, the oldest connection first. Magnetar only."""
        return await self._exchange.read(f"{_ROOT}/connections", Connections)

    async def topic_stats(self) -> TopicsByBundle:
        """Statistics of the loaded topics of the broker that answers: by namespace, bundle, domain and topic."""
        return await self._exchange.read(f"{paths.ROOT}/broker-stats/topics", TopicsByBundle)

    async def load_report(self) -> LoadReport:
        """The load of the broker that answers, of each of its bundles."""
        return await self._exchange.read(f"{paths.ROOT}/broker-stats/load-report", LoadReport)

    async def version(self) -> str:
        return await self._exchange.text(f"{_ROOT}/version")

    async def internal_configuration(self) -> InternalConfiguration:
        return await self._exchange.read(f"{_ROOT}/internal-configuration", InternalConfiguration)

    # Probes: each raises NotReady with the reason if the probe fails

    async def live(self) -> None:
        """Whether the process is alive. Magnetar only."""
        await self._exchange.text("/livez")

    async def ready(self) -> None:
        """Whether the broker accepts clients."""
        await self._exchange.text(f"{_ROOT}/ready")

    async def ready_for_balancers(self, path: str = "/readyz") -> None:
        """The same under the paths of load balancers: /readyz (Magnetar only) and /status.html."""
        await self._exchange.text(path)

    async def healthy(self, broker: str | None = None) -> None:
        """Whether the broker works, including its metadata store."""
        await self._exchange.text(f"{_ROOT}/health", {"brokerId": broker})

    # Settings

    async def dynamic_settings(self) -> Names:
        """The names of the settings that can be changed at run time."""
        return await self._exchange.read(f"{_ROOT}/configuration", Names)

    async def changed_settings(self) -> dict[str, str]:
        """The settings that were changed at run time."""
        return await self._exchange.read(f"{_ROOT}/configuration/values", dict[str, str])

    async def settings(self) -> dict[str, str | None]:
        """Every setting with its present value."""
        return await self._exchange.read(f"{_ROOT}/configuration/runtime", dict[str, str | None])

    async def change_setting(self, name: str, value: str) -> None:
        """Change a setting of all brokers, immediately and permanently."""
        await self._exchange.send("POST", f"{_ROOT}/configuration/{paths.part(name)}/{paths.part(value)}")

    async def restore_setting(self, name: str) -> None:
        """Undo such a change."""
        await self._exchange.send("DELETE", f"{_ROOT}/configuration/{paths.part(name)}")

    # Metrics and description

    async def metrics(self) -> str:
        """Prometheus text."""
        return await self._exchange.text("/metrics")

    async def description(self) -> dict[str, Any]:
        """The OpenAPI description of the server. Magnetar only."""
        return await self._exchange.read("/openapi.json", dict[str, Any])
