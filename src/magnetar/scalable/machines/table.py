"""The rows of a machine's table: the reaction to one event in one phase, and the phases that may follow.

A machine defines which events belong to it. An event without a row changes nothing, for example a late answer or an
answer to another operation. The table makes no decisions itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class HasPhase(Protocol):
    @property
    def phase(self) -> Any: ...


class HasOperation(HasPhase, Protocol):
    """Of one operation, whose events carry its id."""

    @property
    def op(self) -> str: ...


S = TypeVar("S", bound=HasPhase)
A = TypeVar("A", bound=HasOperation)
P = TypeVar("P")
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Transition(Generic[S, P, E]):
    """`take` holds the machine to where the row may lead."""

    do: Callable[[S, Any], tuple[S, tuple[E, ...]]]
    then: tuple[P, ...]

    def take(self, state: S, event: object) -> tuple[S, tuple[E, ...]]:
        after, effects = self.do(state, event)
        assert after.phase in self.then, (state.phase, event, after.phase)
        return after, effects


def taken(table: Mapping[tuple[P, type[Any]], Transition[A, P, E]], state: A, event: object) -> tuple[A, tuple[E, ...]]:
    """The step of a machine of one operation."""
    row = table.get((state.phase, type(event)))
    if row is None or getattr(event, "op", None) != state.op:
        return state, ()
    return row.take(state, event)
