"""The entry point of the admin client: one attribute per resource.

    with Admin("http://localhost:8080") as admin:
        admin.topics.create("persistent://public/default/orders", partitions=4)

Works with Magnetar and Apache Pulsar. Opens no connection before the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx2

from magnetar.base.limits import ADMIN_TIMEOUT_S
from magnetar.base.public import public
from magnetar.client.admin.responses import NOTHING, RestResponse
from magnetar.client.admin.sync.brokers import Brokers
from magnetar.client.admin.sync.clusters import Clusters
from magnetar.client.admin.sync.holds import Holds
from magnetar.client.admin.sync.messages import Messages
from magnetar.client.admin.sync.namespaces import Namespaces
from magnetar.client.admin.sync.scalable import ScalableTopics
from magnetar.client.admin.sync.schemas import Schemas
from magnetar.client.admin.sync.sinks import Sinks
from magnetar.client.admin.sync.subscriptions import Subscriptions
from magnetar.client.admin.sync.tenants import Tenants
from magnetar.client.admin.sync.topics import Topics
from magnetar.client.admin.sync.transport import RestTransport

URL = "http://localhost:8080"


@public("magnetar")
class Admin:
    """`token` is sent as a bearer token; `timeout_s` limits each answer; `on_answer` receives each raw answer."""

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        timeout_s: float = ADMIN_TIMEOUT_S,
        on_answer: Callable[[RestResponse], None] | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._exchange = RestTransport(url, token=token, timeout_s=timeout_s, on_answer=on_answer, transport=transport)
        self.url = self._exchange.url
        self.brokers = Brokers(self._exchange)
        self.clusters = Clusters(self._exchange)
        self.tenants = Tenants(self._exchange)
        self.namespaces = Namespaces(self._exchange)
        self.topics = Topics(self._exchange)
        self.scalable = ScalableTopics(self._exchange)
        self.holds = Holds(self._exchange)
        self.sinks = Sinks(self._exchange)
        self.subscriptions = Subscriptions(self._exchange)
        self.messages = Messages(self._exchange)
        self.schemas = Schemas(self._exchange)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Admin {self.url}>"

    def call(
        self, method: str, path: str, body: Any = NOTHING, *, query: Mapping[str, object] | None = None
    ) -> RestResponse:
        """Send any request below the URL, with the same errors, for calls without a method here."""
        return self._exchange.call(method, path, body, query=query)

    def close(self) -> None:
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
