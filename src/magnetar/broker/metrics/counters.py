"""The counters of the broker, by name: plain numbers that any module may increase."""

from __future__ import annotations

from magnetar.observe.metrics import Metrics


class BrokerMetrics:
    def __init__(self, registry: Metrics) -> None:
        self.connections_opened = registry.gauge("pulsar_connection_created_total_count")
        self.connections_closed = registry.gauge("pulsar_connection_closed_total_count")
        self.connections_aborted = registry.counter("magnetar_connections_aborted")
        self.unknown_commands = registry.counter("magnetar_unknown_commands")
        self.request_failures = registry.counter("magnetar_request_failures")
        self.task_failures = registry.counter("magnetar_task_failures")
