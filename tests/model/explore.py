"""Every reachable state of a small world, each visited once, with the shortest way to the first that is wrong.

A world has moves (progress) and faults (what may happen and need not). A state without a move is quiet: it must be
settled. At the end every state must be able to become quiet, so that nobody runs in circles for ever. Nothing here
knows what the world is about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

State = Hashable
Move = tuple[str, State, bool]  # label, where it leads, whether it is a fault


@dataclass(frozen=True, slots=True)
class Found:
    states: int
    quiet: int
    wrong: str = ""
    way: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.wrong:
            return f"{self.states} states, {self.quiet} of them quiet, nothing wrong"
        return "\n  ".join([f"{self.wrong} after {len(self.way)} steps:", *self.way])


def explore(
    start: State,
    moves: Callable[[State], Iterable[Move]],
    *,
    broken: Callable[[State], str],
    unsettled: Callable[[State], str],
    states_max: int = 2_000_000,
) -> Found:
    numbers: dict[State, int] = {start: 0}
    states: list[State] = [start]
    came: list[tuple[int, str]] = [(-1, "")]
    before: list[list[int]] = [[]]
    quiet: list[int] = []
    waiting = deque([0])

    def way(number: int) -> tuple[str, ...]:
        labels: list[str] = []
        while number > 0:
            number, label = came[number]
            labels.append(label)
        return tuple(reversed(labels))

    while waiting:
        here = waiting.popleft()
        state = states[here]
        wrong = broken(state)
        if wrong:
            return Found(len(states), len(quiet), wrong, way(here))
        progress = False
        for label, after, fault in moves(state):
            if after == state:
                continue
            progress = progress or not fault
            number = numbers.get(after)
            if number is None:
                number = numbers[after] = len(states)
                assert number < states_max, "the world is too large to explore"
                states.append(after)
                came.append((here, label))
                before.append([])
                waiting.append(number)
            if not fault:
                before[number].append(here)
        if not progress:
            wrong = unsettled(state)
            if wrong:
                return Found(len(states), len(quiet), wrong, way(here))
            quiet.append(here)
    stuck = _cannot_settle(before, quiet)
    if stuck >= 0:
        return Found(len(states), len(quiet), "never becomes quiet", way(stuck))
    return Found(len(states), len(quiet))


def _cannot_settle(before: list[list[int]], quiet: list[int]) -> int:
    """The first state from which no quiet one can be reached by progress alone; -1: none."""
    can = bytearray(len(before))
    waiting = list(quiet)
    for number in waiting:
        can[number] = 1
    while waiting:
        for number in before[waiting.pop()]:
            if not can[number]:
                can[number] = 1
                waiting.append(number)
    return can.find(0)
