"""Brokers over REST: names, health, configuration, metrics."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin import paths
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.broker_stats import LoadReport
from magnetar.client.documents.brokers import ConnectionInfo, InternalConfiguration, LeaderBroker, OwnedNamespace

Names = list[str]
Connections = list[ConnectionInfo]
TopicsByBundle = dict[str, dict[str, dict[str, dict[str, Any]]]]

_ROOT = f"{paths.ROOT}/brokers"


class Brokers(AdminResource):
    def names(self, cluster: str | None = None) -> Names:
        """The brokers of one cluster; by default of the server's cluster."""
        tail = "" if cluster is None else f"/{paths.part(cluster)}"
        return self._exchange.read(f"{_ROOT}{tail}", Names)

    def list(self, cluster: str | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names(cluster)

    def leader(self) -> LeaderBroker:
        return self._exchange.read(f"{_ROOT}/leaderBroker", LeaderBroker)

    def owned_namespaces(self, cluster: str, broker: str) -> dict[str, OwnedNamespace]:
        """The bundles that a broker serves."""
        path = f"{_ROOT}/{paths.part(cluster)}/{paths.part(broker)}/ownedNamespaces"
        return self._exchange.read(path, dict[str, OwnedNamespace])

    def connections(self) -> Connections:
        """The clients of the broker that answers, the oldest connection first. Magnetar only."""
        return self._exchange.read(f"{_ROOT}/connections", Connections)

    def topic_stats(self) -> TopicsByBundle:
        """Statistics of the loaded topics of the broker that answers: by namespace, bundle, domain and topic."""
        return self._exchange.read(f"{paths.ROOT}/broker-stats/topics", TopicsByBundle)

    def load_report(self) -> LoadReport:
        """The load of the broker that answers, of each of its bundles."""
        return self._exchange.read(f"{paths.ROOT}/broker-stats/load-report", LoadReport)

    def version(self) -> str:
        return self._exchange.text(f"{_ROOT}/version")

    def internal_configuration(self) -> InternalConfiguration:
        return self._exchange.read(f"{_ROOT}/internal-configuration", InternalConfiguration)

    # Probes: each raises NotReady with the reason if the probe fails

    def live(self) -> None:
        """Whether the process is alive. Magnetar only."""
        self._exchange.text("/livez")

    def ready(self) -> None:
        """Whether the broker accepts clients."""
        self._exchange.text(f"{_ROOT}/ready")

    def ready_for_balancers(self, path: str = "/readyz") -> None:
        """The same under the paths of load balancers: /readyz (Magnetar only) and /status.html."""
        self._exchange.text(path)

    def healthy(self, broker: str | None = None) -> None:
        """Whether the broker works, including its metadata store."""
        self._exchange.text(f"{_ROOT}/health", {"brokerId": broker})

    # Settings

    def dynamic_settings(self) -> Names:
        """The names of the settings that can be changed at run time."""
        return self._exchange.read(f"{_ROOT}/configuration", Names)

    def changed_settings(self) -> dict[str, str]:
        """The settings that were changed at run time."""
        return self._exchange.read(f"{_ROOT}/configuration/values", dict[str, str])

    def settings(self) -> dict[str, str | None]:
        """Every setting with its present value."""
        return self._exchange.read(f"{_ROOT}/configuration/runtime", dict[str, str | None])

    def change_setting(self, name: str, value: str) -> None:
        """Change a setting of all brokers, immediately and permanently."""
        self._exchange.send("POST", f"{_ROOT}/configuration/{paths.part(name)}/{paths.part(value)}")

    def restore_setting(self, name: str) -> None:
        """Undo such a change."""
        self._exchange.send("DELETE", f"{_ROOT}/configuration/{paths.part(name)}")

    # Metrics and description

    def metrics(self) -> str:
        """Prometheus text."""
        return self._exchange.text("/metrics")

    def description(self) -> dict[str, Any]:
        """The OpenAPI description of the server. Magnetar only."""
        return self._exchange.read("/openapi.json", dict[str, Any])
