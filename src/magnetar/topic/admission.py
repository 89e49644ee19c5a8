"""Who may produce here and who may make a durable cursor (holes D3, E9): asked before anything is made. Plain topics
say yes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _yes(name: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Admission:
    """Each raises an error of the tree to refuse."""

    produce: Callable[[str], None] = _yes  # the producer's name
    durable_cursor: Callable[[str], None] = _yes  # the subscription's name


OPEN = Admission()
