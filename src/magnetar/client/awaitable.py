"""The return value of the asyncio client's factory methods: await it, or enter it with `async with`.

    producer = await client.create_producer("orders")
    async with client.create_producer("orders") as producer: ...

The value is a coroutine: no work starts before it is awaited or entered, once. `async with` closes the object at its
end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar

from magnetar.base.errors import Misuse

P = ParamSpec("P")
M_co = TypeVar("M_co", bound="Closable", covariant=True)
M = TypeVar("M", bound="Closable")


class Closable(Protocol):
    """Every object that a client creates."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Creation(Coroutine[Any, Any, M_co], Generic[M_co]):
    """Await it for the object, or enter it with `async with`, which closes the object afterwards."""

    __slots__ = ("_made", "_work")

    def __init__(self, work: Coroutine[Any, Any, M_co]) -> None:
        self._work = work
        self._made: M_co | None = None

    def __await__(self) -> Generator[Any, Any, M_co]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """Part of the coroutine protocol. Any other value is a message for a producer that was not awaited."""
        if value is not None and inspect.getcoroutinestate(self._work) == inspect.CORO_CREATED:
            raise Misuse("the object is not created yet: write `await client.create_...(...)`, or use `async with`")
        return self._work.send(value)

    def throw(self, *raised: Any) -> Any:
        return self._work.throw(*raised)

    def close(self) -> None:
        self._work.close()

    async def __aenter__(self) -> M_co:
        self._made = await self._work
        return await self._made.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, trace)


def creation(method: Callable[P, Coroutine[Any, Any, M]]) -> Callable[P, Creation[M]]:
    """Decorates a factory method: callers may await its result or enter it."""

    @wraps(method)
    def made(*args: P.args, **kwargs: P.kwargs) -> Creation[M]:
        return Creation(method(*args, **kwargs))

    return made
