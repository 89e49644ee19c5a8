"""What all blocking faces share: an asyncio object on the loop thread, and how to make it again in a forked child.

The parent's objects are kept there and never touched: their sockets belong to the parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from magnetar.client import client as aio
from magnetar.runtime.portal import Portal, portal

T = TypeVar("T")
C = TypeVar("C")

# What a child leaves alone after a fork: finalizers of the parent's sockets and loop must not run there.
_left: list[Any] = []


class Living(Protocol):
    """The blocking client, as its faces see it."""

    def core(self) -> tuple[Portal, aio.Client]: ...


class Face(Generic[C]):
    """`make(client)` makes the asyncio object. `renewed` is called after it was made again."""

    def __init__(self, client: Living, make: Callable[[aio.Client], Coroutine[Any, Any, C]]) -> None:
        self._client = client
        self._make = make
        self._portal: Portal | None = None
        self._object: C | None = None
        self._renewing: tuple[Portal, asyncio.Lock] | None = None
        self.core()

    def core(self) -> tuple[Portal, C]:
        """The loop thread of this process, and the object on it."""
        here = portal()
        if here is self._portal and self._object is not None:
            return here, self._object
        where, client = self._client.core()
        return where, where.run(lambda: self._renew(where, client))

    def renewed(self, where: Portal, made: C) -> None:
        """For faces that keep more than the object: called on the loop, before anybody uses it."""

    async def _renew(self, where: Portal, client: aio.Client) -> C:
        """On the loop, one at a time: two threads that come first together get the same object."""
        if self._renewing is None or self._renewing[0] is not where:
            self._renewing = (where, asyncio.Lock())
        async with self._renewing[1]:
            if self._object is None or self._portal is not where:
                _left.append((self._portal, self._object))
                made = await self._make(client)
                self.renewed(where, made)
                self._object = made
                self._portal = where
            return self._object

    def _run(self, call: Callable[[C], Coroutine[Any, Any, T]]) -> T:
        where, made = self.core()
        return where.run(lambda: call(made))
