"""The engines that a test may replace in a world, and the result of a world. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from simulation.environment.disk import SimulatedFiles
from simulation.history import History


@dataclass(frozen=True, slots=True)
class EngineOverrides:
    """Engines that a test puts in the place of the real ones; the product has no such switch."""

    files: Callable[[int], SimulatedFiles] = SimulatedFiles
    ledgers: Callable[[Any], LedgerStore] | None = None
    metadata: Callable[[MetadataStore], MetadataStore] | None = None


@dataclass(slots=True)
class WorldResult:
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
