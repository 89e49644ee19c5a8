"""Metrics of a broker of a cluster: its session with the metadata store, and the bundles that it owns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    ),
    "counter",
)


def cluster_samples(ownership: LockOwnership) -> Iterator[Sample]:
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
