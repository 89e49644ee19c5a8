"""Documents of staged-publishing sinks: committed batches, batches being published, and the reason of a delay."""

from __future__ import annotations

import msgspec


class PublishingStage(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen stage, and the number of its messages that are at least in the topic."""

    stage: int
    batch: int
    messages: int
    published: int


class SinkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`lastBatch` -1: no batch was committed yet. `openStages` are being written or wait for their commit. `trouble`:
    the reason why publishing waits, from the answering broker's own attempts."""

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
