"""Brokers over REST: who they are, whether they work, how they are configured, what they measure."""

from __future__ import annotations

from typing import Any

from magnetar.client.admin import paths
from magnetar.client.admin.sync.transport import RestTransport
from magnetar.client.documents.brokers import ConnectionInfo, InternalConfiguration, LeaderBroker, OwnedNamespace

Names = list[str]
Connections = list[ConnectionInfo]

_ROOT = f"{paths.ROOT}/brokers"


class Brokers:
    def __init__(self, exchange: RestTransport) -> None:
        self._exchange = exchange

    def names(self, cluster: str | None = None) -> Names:
        """Of one cluster, or of the one asked."""
        tail = "" if cluster is None else f"/{paths.part(cluster)}"
        return self._exchange.read(f"{_ROOT}{tail}", Names)

    def list(self, cluster: str | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names(cluster)

    def leader(self) -> LeaderBroker:
        return self._exchange.read(f"{_ROOT}/leaderBroker", LeaderBroker)

    def owned_namespaces(self, cluster: str, broker: str) -> dict[str, OwnedNamespace]:
        """The bundles a broker serves."""
        path = f"{_ROOT}/{paths.part(cluster)}/{paths.part(broker)}/ownedNamespaces"
        return self._exchange.read(path, dict[str, OwnedNamespace])

    def connections(self) -> Connections:
        """The clients of the broker that is asked, the oldest connection first. Magnetar only."""
        return self._exchange.read(f"{_ROOT}/connections", Connections)

    def version(self) -> str:
        return self._exchange.text(f"{_ROOT}/version")

    def internal_configuration(self) -> InternalConfiguration:
        return self._exchange.read(f"{_ROOT}/internal-configuration", InternalConfiguration)

    # Probes: each raises NotReady with the reason where the answer is no

    def live(self) -> None:
        """Whether the process is alive. Magnetar only."""
        self._exchange.text("/livez")

    def ready(self) -> None:
        """Whether clients may come."""
        self._exchange.text(f"{_ROOT}/ready")

    def ready_for_balancers(self, path: str = "/readyz") -> None:
        """The same under the names load balancers know: /readyz (Magnetar only) and /status.html."""
        self._exchange.text(path)

    def healthy(self, broker: str | None = None) -> None:
        """Whether the broker works, through to its metadata."""
        self._exchange.text(f"{_ROOT}/health", {"brokerId": broker})

    # Settings

    def dynamic_settings(self) -> Names:
        """The names of those that may be changed while running."""
        return self._exchange.read(f"{_ROOT}/configuration", Names)

    def changed_settings(self) -> dict[str, str]:
        """What was changed while running."""
        return self._exchange.read(f"{_ROOT}/configuration/values", dict[str, str])

    def settings(self) -> dict[str, str | None]:
        """Every setting as it holds now."""
        return self._exchange.read(f"{_ROOT}/configuration/runtime", dict[str, str | None])

    def change_setting(self, name: str, value: str) -> None:
        """Of all brokers, at once, for good."""
        self._exchange.send("POST", f"{_ROOT}/configuration/{paths.part(name)}/{paths.part(value)}")

    def restore_setting(self, name: str) -> None:
        """Take such a change back."""
        self._exchange.send("DELETE", f"{_ROOT}/configuration/{paths.part(name)}")

    # Everything at once

    def metrics(self) -> str:
        """Prometheus text."""
        return self._exchange.text("/metrics")

    def description(self) -> dict[str, Any]:
        """The OpenAPI description of the server. Magnetar only."""
        return self._exchange.read("/openapi.json", dict[str, Any])
