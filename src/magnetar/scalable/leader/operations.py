"""One reshape, deletion or change of a subscription as people see it: which steps it took, when, and how it ended.

Kept in memory by the broker that carried it out, a bounded number; what must outlive the broker is in the record.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from magnetar.base.limits import OPERATIONS_KEPT_MAX, RESHAPES_COUNTED_MAX
from magnetar.base.names import TopicName


@dataclass(frozen=True, slots=True)
class OperationStep:
    name: str  # what had happened: "intended", "provisioned", "sealed", "committed"
    at_ms: int


@dataclass(slots=True)
class Operation:
    op: str
    kind: str  # "SPLIT", "MERGE", "DELETE"
    topic: str
    phase: str = "PREFLIGHT"
    steps: list[OperationStep] = field(default_factory=list)
    error: str = ""  # why it was not done
    ended_ms: int = 0  # 0: it goes on
    stepping: Callable[[], None] | None = None  # called after each step

    @property
    def done(self) -> bool:
        return self.ended_ms > 0

    def stepped(self, name: str, phase: str, now_ms: int) -> None:
        self.phase = phase
        self.steps.append(OperationStep(name, now_ms))
        if self.stepping is not None:
            self.stepping()

    def ended(self, phase: str, now_ms: int, error: str = "") -> None:
        self.phase, self.ended_ms, self.error = phase, now_ms, error


async def begun(operation: Operation, work: asyncio.Task[None]) -> None:
    """Waits for the first step: the operation is stored and will be carried out or taken back, even if the caller
    leaves. Raises the refusal if there was one before that."""
    first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stepped() -> None:
        if not first.done():
            first.set_result(None)

    operation.stepping = stepped
    await asyncio.wait([work, first], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()


class Operations:
    """The last ones, by topic and id."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Operation] = {}
        self.finished: dict[str, Counter[str]] = {}  # by topic: how many of each kind were carried out here

    def count(self, operation: Operation) -> None:
        """It was carried out."""
        kinds = self.finished.setdefault(operation.topic, Counter())
        kinds[operation.kind] += 1
        if len(self.finished) > RESHAPES_COUNTED_MAX:
            del self.finished[next(iter(self.finished))]

    def find(self, topic: TopicName, op: str) -> Operation | None:
        return self._kept.get((topic.canonical, op))

    def of(self, topic: TopicName) -> list[Operation]:
        return [one for (name, _), one in self._kept.items() if name == topic.canonical]

    def begin(self, topic: TopicName, op: str, kind: str, now_ms: int) -> Operation:
        """An operation that is taken up again goes on where it was."""
        key = topic.canonical, op
        operation = self._kept.get(key)
        if operation is None or operation.done:
            operation = self._kept[key] = Operation(op, kind, str(topic))
        while len(self._kept) > OPERATIONS_KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return operation
