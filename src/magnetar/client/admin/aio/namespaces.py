"""Namespaces over REST: list, create, delete; policies, properties, topics, bundles. Names are tenant/namespace."""

from __future__ import annotations

from typing import Literal, TypeVar

from magnetar.client.admin import paths
from magnetar.client.admin.aio.resource import AdminResource
from magnetar.client.admin.policy import Policy, Removable, Settable
from magnetar.client.documents.policies import Bundles, Policies

Names = list[str]

T = TypeVar("T")
Mode = Literal["PERSISTENT", "NON_PERSISTENT", "ALL"]


class Namespaces(AdminResource):
    async def names(self, tenant: str) -> Names:
        return await self._exchange.read(f"{paths.ROOT}/namespaces/{paths.part(tenant)}", Names)

    async def list(self, tenant: str) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names(tenant)

    async def create(self, name: str, policies: Policies | None = None) -> None:
        await self._exchange.send("PUT", paths.namespace(name), policies or Policies())

    async def delete(self, name: str, *, force: bool = False) -> None:
        """With `force`, also delete its topics, if the brokers allow it."""
        await self._exchange.send("DELETE", paths.namespace(name), query={"force": force or None})

    async def topics(self, name: str, mode: Mode = "PERSISTENT") -> Names:
        """All topics in one answer, each partition separately; `Topics.walk` reads page by page."""
        return await self._exchange.read(f"{paths.namespace(name)}/topics", Names, {"mode": mode})

    async def bundles(self, name: str) -> Bundles:
        return await self._exchange.read(f"{paths.namespace(name)}/bundles", Bundles)

    async def unload(self, name: str, *, bundle: str | None = None) -> None:
        """Unload every topic, or those of one bundle (`0x00000000_0x40000000`): clients look them up again."""
        tail = "" if bundle is None else f"/{paths.part(bundle)}"
        await self._exchange.send("PUT", f"{paths.namespace(name)}{tail}/unload")

    # Policies

    async def policies(self, name: str) -> Policies:
        return await self._exchange.read(paths.namespace(name), Policies)

    async def policy(self, name: str, policy: Policy[T]) -> T | None:
        """None: not set, so the broker's own setting applies."""
        return await self._exchange.read_if_set(f"{paths.namespace(name)}/{policy.name}", policy.kind)

    async def set_policy(self, name: str, policy: Settable[T], value: T) -> None:
        await self._exchange.send("POST", f"{paths.namespace(name)}/{policy.name}", value)

    async def remove_policy(self, name: str, policy: Removable[T]) -> None:
        await self._exchange.send("DELETE", f"{paths.namespace(name)}/{policy.name}")

    # Properties

    async def properties(self, name: str) -> dict[str, str]:
        return await self._exchange.read(f"{paths.namespace(name)}/properties", dict[str, str])

    async def add_properties(self, name: str, properties: dict[str, str]) -> None:
        await self._exchange.send("PUT", f"{paths.namespace(name)}/properties", properties)

    async def clear_properties(self, name: str) -> None:
        await self._exchange.send("DELETE", f"{paths.namespace(name)}/properties")

    async def get_property(self, name: str, key: str) -> str | None:
        return await self._exchange.text(f"{paths.namespace(name)}/property/{paths.part(key)}") or None

    async def set_property(self, name: str, key: str, value: str) -> None:
        await self._exchange.send("PUT", f"{paths.namespace(name)}/property/{paths.part(key)}/{paths.part(value)}")

    async def remove_property(self, name: str, key: str) -> None:
        await self._exchange.send("DELETE", f"{paths.namespace(name)}/property/{paths.part(key)}")
