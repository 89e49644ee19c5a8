"""Who may produce here and who may make a durable cursor (H-D3, H-E9): asked before anything is made. Plain topics
say yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from magnetar.topic.producers.access import Mode
from magnetar.topic.subscriptions.subscribe import Subscribe


def _yes(name: str) -> None:
    return None


async def _welcome(name: str, client_version: str, mode: Mode, queued: Callable[[], None]) -> None:
    return None


async def _still_welcome(name: str, mode: Mode) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Admitted:
    """Of a consumer of a scalable topic. `seeks`: how often its subscription was moved. `early`: the consumer reads
    before the preceding segments are acknowledged (H-F20)."""

    seeks: int
    early: bool


async def _anyone(request: Subscribe) -> Admitted | None:
    return None


async def _as_it_is(subscription: Any, request: Subscribe) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Admission:
    """Each raises an error of the tree to refuse."""

    # The producer's name, the version of its client, its access mode, and a callback for a producer that has to wait.
    produce: Callable[[str, str, Mode, Callable[[], None]], Awaitable[None]] = _welcome
    durable_cursor: Callable[[str], None] = _yes  # the subscription's name
    produced: Callable[[str, Mode], Awaitable[None]] = _still_welcome  # asked again, after it was attached
    attach: Callable[[Any, Subscribe], Awaitable[None]] = _as_it_is  # an existing subscription, and its new consumer
    consume: Callable[[Subscribe], Awaitable[Admitted | None]] = _anyone  # of a durable subscription, existing or not


OPEN = Admission()
