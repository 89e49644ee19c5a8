"""Reports the lag of a session's queries after every batch: messages, bytes, and the age of the oldest.

`spark.streams.addListener(LagListener())` logs a line per batch. Pass a function to feed a metric or an alert. Spark's
progress contains the numbers (`report`), so this sends no request to a broker. Sources of other kinds are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from magnetar.spark.progress.report import Lag, lag_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger("magnetar.spark")


def log_lag(lag: Lag) -> None:
    name = lag.name or lag.query
    log.info("query %s: %d messages behind, the oldest is %.1f s old", name, lag.messages, lag.age_s)


class LagListener(StreamingQueryListener):
    """Spark's listener thread calls `report` once per batch of each query: it must not block."""

    def __init__(self, report: Callable[[Lag], None] = log_lag) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """The lag is not known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        texts = [source.latestOffset for source in progress.sources]
        lag = lag_of(str(progress.id), progress.name or "", progress.batchId, progress.timestamp, texts)
        if lag is not None:
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """The lag has not changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The last progress stays valid."""
