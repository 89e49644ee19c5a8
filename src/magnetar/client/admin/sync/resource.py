"""The base of the resources of `Admin`: the connection that they share, and how they show themselves."""

from __future__ import annotations

from magnetar.client.admin.sync.transport import RestTransport


class AdminResource:
    def __init__(self, exchange: RestTransport) -> None:
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._exchange.url}>"
