"""The load of `magnetar perf` and its counters: values only, on one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.names import topic_name
from magnetar.cli.traffic.histogram import Histogram

if TYPE_CHECKING:
    from magnetar.client.message import MessageId


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    topic: str
    seconds: float
    rate: float = 0.0
    size: int = 0
    producers: int = 0
    batching: bool = True
    subscription: str = ""
    timeout_s: float = 0.0  # timeout of a receipt: without a broker, the measurement still ends on time

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"topic": str(topic_name(self.topic)), "seconds": self.seconds}
        if self.subscription:
            return {**fields, "subscription": self.subscription}
        sending = ("rate", "size", "producers", "batching")
        return {**fields, **{name: getattr(self, name) for name in sending}}


class Connected(Protocol):
    @property
    def connected(self) -> bool: ...


@dataclass(slots=True)
class PerfCounters:
    """Updated on one loop only."""

    messages: int = 0
    bytes: int = 0
    failures: int = 0
    seconds: float = 0.0
    latency: Histogram = field(default_factory=Histogram)
    error: MagnetarError | None = None
    users: list[Connected] = field(default_factory=list)  # producers and consumers, for the state of the connection

    @property
    def connected(self) -> bool:
        return all(user.connected for user in self.users)

    def uses(self, user: Connected) -> None:
        self.users.append(user)

    def stored(
        self, sent_at: float, clock: Callable[[], float], count: int, _: MessageId | None, error: MagnetarError | None
    ) -> None:
        if error is not None:
            self.failures += 1
            self.error = self.error or error
            return
        self.messages += 1
        self.bytes += count
        self.latency.add(clock() - sent_at)

    def document(self, kind: str, load: LoadGenerator) -> dict[str, Any]:
        seconds = self.seconds or 1.0
        return {
            "kind": kind,
            "load": load.document(),
            "messages": self.messages,
            "bytes": self.bytes,
            "failures": self.failures,
            "seconds": round(self.seconds, 3),
            "messages_per_s": round(self.messages / seconds, 1),
            "bytes_per_s": round(self.bytes / seconds, 1),
            "latency_ms": self.latency.document() if self.latency.count else None,
        }
