"""Runs `async def` tests: on the virtual clock, or on the real clock if the mark `real_clock` is set.

A parameter of an async test is a fixture, unless a generator is registered for its annotation with `provides`. Such a
generator starts and stops its value in the task of the test. The mark `setup` passes arguments to it. Sync tests, and
fixtures that are async, are none of this module's concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, ParamSpec, TypeVar

import pytest

from tests.support.virtual_clock import run_on_clock

REAL_TIMEOUT_S = 300.0  # below the timeout of pytest, so that a traceback shows where the test waits
MARKS = (
    "real_clock: an async test runs on the event loop of asyncio, because it uses sockets, threads or files",
    "setup(...): the arguments of the generator that provides the parameter of an async test",
)

P = ParamSpec("P")
T = TypeVar("T")

_providers: dict[type, Callable[..., AbstractAsyncContextManager[Any]]] = {}


@dataclass(frozen=True, slots=True)
class _Provided:
    context: AbstractAsyncContextManager[Any]


def provides(
    kind: type[T],
) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Registers the generator that yields the parameter with the annotation `kind` to async tests."""

    def register(generator: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        context = asynccontextmanager(generator)
        _providers[kind] = context
        return context

    return register


async def within(context: AbstractAsyncContextManager[T], body: Callable[[T], Awaitable[None]]) -> None:
    async with context as value:
        await body(value)


def run_on_real_clock(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(REAL_TIMEOUT_S):
            await body()

    asyncio.run(main())


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fills in the provided parameters, so that pytest does not look for fixtures of their names."""
    if not isinstance(item, pytest.Function) or not iscoroutinefunction(item.obj):
        return
    kinds = {name: _kind(item, parameter) for name, parameter in signature(item.obj).parameters.items()}
    provided = {name: _providers[kind] for name, kind in kinds.items() if kind in _providers}
    setup = item.get_closest_marker("setup")
    if setup is not None and len(provided) != 1:
        pytest.fail("the mark setup requires exactly one parameter with a provider", pytrace=False)
    for name, provider in provided.items():
        item.funcargs[name] = _Provided(provider() if setup is None else provider(*setup.args, **setup.kwargs))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    function = pyfuncitem.obj
    if not iscoroutinefunction(function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in signature(function).parameters}

    async def body() -> None:
        async with AsyncExitStack() as stack:
            for name, value in arguments.items():
                if isinstance(value, _Provided):
                    arguments[name] = await stack.enter_async_context(value.context)
            await function(**arguments)

    run = run_on_clock if pyfuncitem.get_closest_marker("real_clock") is None else run_on_real_clock
    run(body)
    return True


def _kind(item: pytest.Function, parameter: Parameter) -> object:
    """The class that the annotation names, dotted or not. Annotations are text in modules with postponed evaluation."""
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    first, *rest = parameter.annotation.split(".")
    found = item.obj.__globals__.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None
