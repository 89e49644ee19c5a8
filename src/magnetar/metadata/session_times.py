"""The times that follow from the timeout of a session with the metadata store.

The store and its server agree on the timeout when the session begins. A handle says it as `session_s`; an engine
without sessions has none, and then the default of Pulsar applies. The times are read again for each use, because the
next session may have another timeout.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.limits import SESSION_S
from magnetar.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class SessionTimes:
    session_s: float

    @property
    def belief_s(self) -> float:
        """A holder without an answer steps down after this time, before the server ends its session (H-B9)."""
        return self.session_s * 2 / 3

    @property
    def remainder_s(self) -> float:
        """The server ends a session that its client has given up within this time."""
        return self.session_s / 3

    @property
    def end_s(self) -> float:
        """The session of a process that ended is over after this time: also if its last heartbeat came late."""
        return self.session_s * 3 / 2

    @property
    def echo_s(self) -> float:
        """After a lost session: another owner that has lost its session too has noticed it by then."""
        return self.session_s * 4 / 3

    @property
    def registration_s(self) -> float:
        """The limit of a registration: longer than the session of an earlier process."""
        return self.session_s * 2

    @property
    def retry_s_max(self) -> float:
        """The longest pause between two reads of a lock after the store did not answer."""
        return self.session_s / 3


def session_times(store: MetadataStore) -> SessionTimes:
    return SessionTimes(getattr(store, "session_s", SESSION_S))
