"""Who may produce here and who may make a durable cursor (holes D3, E9): asked before anything is made. Plain topics
say yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


def _yes(name: str) -> None:
    return None


async def _welcome(name: str, client_version: str) -> None:
    return None


async def _as_it_is(subscription: Any, earliest: bool) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Admission:
    """Each raises an error of the tree to refuse."""

    produce: Callable[[str, str], Awaitable[None]] = _welcome  # the producer's name, the version of its client
    durable_cursor: Callable[[str], None] = _yes  # the subscription's name
    attach: Callable[[Any, bool], Awaitable[None]] = _as_it_is  # a subscription that is there, and the start asked for


OPEN = Admission()
