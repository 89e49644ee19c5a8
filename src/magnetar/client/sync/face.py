"""What all blocking faces share: an asyncio object on the loop thread, and how to make it again in a forked child."""

from __future__ import annotations

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
        self.core()

    def core(self) -> tuple[Portal, C]:
        """The loop thread of this process, and the object on it."""
        here = portal()
        if here is self._portal and self._object is not None:
            return here, self._object
        _left.append((self._portal, self._object))
        where, client = self._client.core()
        made = where.run(lambda: self._make(client))
        self._portal, self._object = where, made
        self.renewed(where, made)
        return where, made

    def renewed(self, where: Portal, made: C) -> None:
        """For faces that keep more than the object."""

    def _run(self, call: Callable[[C], Coroutine[Any, Any, T]]) -> T:
        where, made = self.core()
        return where.run(lambda: call(made))
