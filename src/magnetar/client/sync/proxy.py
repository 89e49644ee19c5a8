"""The shared part of all blocking wrappers: an asyncio object on the loop thread, recreated in a forked child.

The child keeps the parent's objects and never touches them: their sockets belong to the parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.client import client as aio
from magnetar.runtime.portal import Portal, portal, without_frames

T = TypeVar("T")
C = TypeVar("C")

# A child keeps these after a fork: finalizers of the parent's sockets and loop must not run there.
_left: list[Any] = []


class ProxyState(Protocol):
    """The blocking client, as its wrappers see it."""

    def _core(self) -> tuple[Portal, aio.Client]: ...


class BlockingProxy(Generic[C]):
    """`make(client)` creates the asyncio object. `_renewed` is called after it was recreated."""

    def __init__(self, client: ProxyState, make: Callable[[aio.Client], Coroutine[Any, Any, C]]) -> None:
        self._client = client
        self._make = make
        self._portal: Portal | None = None
        self._object: C | None = None
        self._renewing: tuple[Portal, asyncio.Lock] | None = None
        self._core()

    def __repr__(self) -> str:
        described = getattr(self._object, "_described", None)  # read here, without crossing to the loop thread
        return f"<magnetar.{type(self).__name__} {'not attached yet' if described is None else described()}>"

    def _core(self) -> tuple[Portal, C]:
        """The loop thread of this process, and the object on it."""
        here = portal()
        if here is self._portal and self._object is not None:
            return here, self._object
        where, client = self._client._core()
        try:
            return where, where.run(lambda: self._renew(where, client))
        except MagnetarError as error:
            raise without_frames(error) from error.__cause__  # show the user's line, not the internals

    def _renewed(self, where: Portal, target: C) -> None:
        """For wrappers with more state: called on the loop, before the first use."""

    async def _renew(self, where: Portal, client: aio.Client) -> C:
        """Runs on the loop, one at a time: two threads with a simultaneous first use get the same object."""
        if self._renewing is None or self._renewing[0] is not where:
            self._renewing = (where, asyncio.Lock())
        async with self._renewing[1]:
            if self._object is None or self._portal is not where:
                _left.append((self._portal, self._object))
                target = await self._make(client)
                self._renewed(where, target)
                self._object = target
                self._portal = where
            return self._object

    def _run(self, call: Callable[[C], Coroutine[Any, Any, T]]) -> T:
        where, target = self._core()
        return where.run(lambda: call(target))
