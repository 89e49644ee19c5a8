"""Values of the process and its machine: memory, processor time, descriptors, event-loop delay.

Only a broker with its own process has them: in tests and in the simulator several brokers share one process.
prometheus-client reads the process at each scrape. The delay of the event loop is the lateness of a timer that runs
once per second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from magnetar.base.limits import LOOP_LAG_KEPT, LOOP_LAG_S
from magnetar.observe.metrics import Sample

if TYPE_CHECKING:
    from magnetar.observe.metrics import Metrics
    from magnetar.runtime.runtime import Owner, Runtime


class HostMetricsNode(Protocol):
    """What HostMetrics uses of the node."""

    runtime: Runtime
    registry: Metrics
    owner: Owner


class HostMetrics:
    """`start` it on the loop that it measures."""

    def __init__(self, node: HostMetricsNode) -> None:
        from prometheus_client.process_collector import ProcessCollector

        self._node = node
        self._process = ProcessCollector(registry=None)
        self._lags: deque[float] = deque([0.0], maxlen=LOOP_LAG_KEPT)

    def start(self) -> None:
        self._node.registry.provide(self.samples)
        self._node.runtime.spawn(self._node.owner, self._measure())

    def samples(self) -> Iterator[Sample]:
        yield "magnetar_event_loop_lag_seconds", (), round(self._lags[-1], 6)
        yield "magnetar_event_loop_lag_seconds_max", (), round(max(self._lags), 6)
        for family in self._process.collect():
            for sample in family.samples:
                yield sample.name, (), sample.value

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOP_LAG_S
            await asyncio.sleep(LOOP_LAG_S)
            self._lags.append(max(0.0, loop.time() - due))
