"""The entry point of the admin client: one attribute per resource.

    async with Admin("http://localhost:8080") as admin:
        await admin.topics.create("persistent://public/default/orders", partitions=4)

Works with Magnetar and Apache Pulsar. Opens no connection before the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx2

from magnetar.base.limits import ADMIN_TIMEOUT_S
from magnetar.base.public import public
from magnetar.client.admin.aio.brokers import Brokers
from magnetar.client.admin.aio.clusters import Clusters
from magnetar.client.admin.aio.holds import Holds
from magnetar.client.admin.aio.messages import Messages
from magnetar.client.admin.aio.namespaces import Namespaces
from magnetar.client.admin.aio.scalable import ScalableTopics
from magnetar.client.admin.aio.schemas import Schemas
from magnetar.client.admin.aio.sinks import Sinks
from magnetar.client.admin.aio.subscriptions import Subscriptions
from magnetar.client.admin.aio.tenants import Tenants
from magnetar.client.admin.aio.topics import Topics
from magnetar.client.admin.aio.transport import RestTransport
from magnetar.client.admin.responses import NOTHING, RestResponse

URL = "http://localhost:8080"


@public("magnetar.aio")
class Admin:
    """`token` is sent as a bearer token; `timeout_s` limits each answer; `on_answer` receives each raw answer."""

    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        timeout_s: float = ADMIN_TIMEOUT_S,
        on_answer: Callable[[RestResponse], None] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
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

    async def call(
        self, method: str, path: str, body: Any = NOTHING, *, query: Mapping[str, object] | None = None
    ) -> RestResponse:
        """Send any request below the URL, with the same errors, for calls without a method here."""
        return await self._exchange.call(method, path, body, query=query)

    async def aclose(self) -> None:
        await self._exchange.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
