"""Sinks of staged publishing, as REST shows them: what is committed, what is on its way, and why it does not get on."""

from __future__ import annotations

import msgspec


class PublishingStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was chosen, and how much of it is in the topic at least."""

    stage: int
    batch: int
    messages: int
    published: int


class SinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`lastBatch` -1: none was committed yet. `openStages` are written or wait for their commit. `trouble`: why its
    publishing waits, as far as the broker that was asked tried it."""

    sink: str
    topic: str
    lastBatch: int = -1
    openStages: int = 0
    dropped: int = 0
    publishing: list[PublishingStage] = []
    backlogMessages: int = 0
    run: str = ""
    once: bool = False
    changedMs: int = 0
    trouble: str = ""
