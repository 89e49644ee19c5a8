"""Metrics of a broker of a cluster: its session with the metadata store, the bundles that it owns, its calls to other
brokers, and the clients that it redirects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, Unavailable, Unknown
from magnetar.cluster.session_state import SessionState

if TYPE_CHECKING:
    from magnetar.cluster.lock_ownership import LockOwnership
    from magnetar.observe.metrics import Sample

CLUSTER_COUNTERS = dict.fromkeys(
    (
        "magnetar_metadata_connections_lost",
        "magnetar_metadata_sessions_lost",
        "magnetar_metadata_session_attempts",
        "magnetar_metadata_away_seconds",
        "magnetar_bundles_acquired",
        "magnetar_bundles_lost",
        "magnetar_bundles_taken_over",
        "magnetar_redirects",
        "magnetar_peer_calls",
    ),
    "counter",
)


class ClusterCounts:
    """Redirects of clients to other brokers, and calls to other brokers by their outcome."""

    def __init__(self) -> None:
        self.redirects = 0
        self.calls = {"answered": 0, "refused": 0, "not_ready": 0, "unknown": 0}

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Counts the call inside this context."""
        try:
            yield
        except MagnetarError as error:
            unavailable = "not_ready" if isinstance(error, Unavailable) else "refused"
            self.calls["unknown" if isinstance(error, Unknown) else unavailable] += 1
            raise
        self.calls["answered"] += 1


def cluster_samples(ownership: LockOwnership, counts: ClusterCounts) -> Iterator[Sample]:
    """Read at every scrape."""
    keeper = ownership.keeper
    yield "magnetar_metadata_session", (), float(keeper.state is SessionState.HERE)
    yield "magnetar_metadata_connections_lost", (), keeper.connections_lost
    yield "magnetar_metadata_sessions_lost", (), keeper.sessions_lost
    yield "magnetar_metadata_session_attempts", (), keeper.attempts
    yield "magnetar_metadata_away_seconds", (), keeper.seconds_away
    yield "magnetar_bundles_owned", (), len(ownership.held())
    yield "magnetar_bundles_acquired", (), ownership.bundles_acquired
    yield "magnetar_bundles_lost", (), ownership.bundles_lost
    yield "magnetar_bundles_validation_seconds", (), ownership.validated_s
    yield "magnetar_bundles_taken_over", (), ownership.bundles_taken_over
    yield "magnetar_redirects", (), counts.redirects
    for outcome, calls in counts.calls.items():
        yield "magnetar_peer_calls", (("outcome", outcome),), calls
