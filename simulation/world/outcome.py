"""What may be put into a world in the place of an engine, and what comes out of it. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from simulation.environment.disk import ForgetfulFiles
from simulation.history import History


@dataclass(frozen=True, slots=True)
class Parts:
    """What a test may put in the place of an engine; the product has no such switch."""

    files: Callable[[int], ForgetfulFiles] = ForgetfulFiles
    ledgers: Callable[[Any], LedgerStore] | None = None
    metadata: Callable[[MetadataStore], MetadataStore] | None = None


@dataclass(slots=True)
class Outcome:
    seed: int
    findings: list[str]
    trace: str
    marks: Counter[str]
    faults: Counter[str]
    messages: int  # sent and acknowledged
    received: int
    virtual_s: float
    calls: int
    history: History = field(repr=False)
