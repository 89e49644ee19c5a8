"""The decisions of a broker about its session with the metadata store (PIP-57): events go in, effects come out.

After a lost connection and after a lost session, loaded topics are served and nothing new starts. They end differently:
a restored connection restores its session, but a lost session ends only with a new one. With the policy `shutdown` a
lost session ends the process. With `reconnect` the broker makes a bounded number of attempts, with a growing pause
between them, and then ends as well. Nothing here waits or counts time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from magnetar.base.limits import SESSION_ATTEMPT_S_MAX, SESSION_ATTEMPT_S_MIN
from magnetar.metadata.store import Session


class SessionState(Enum):
    HERE = auto()
    AWAY = auto()  # the store does not answer; the session may outlive that
    GONE = auto()  # the session is over: others may take what was locked in it


class SessionPolicy(Enum):
    """`zookeeperSessionExpiredPolicy`"""

    RECONNECT = "reconnect"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Wait, and then look for a new session."""

    attempt: int  # from 1 on
    wait_s: float


@dataclass(frozen=True, slots=True)
class ShutDown:
    """End the process."""

    why: str


Effect = TryAgain | ShutDown


class SessionDecider:
    """`attempts_max`: of `metadataStoreSessionReconnectAttempts`."""

    def __init__(self, policy: SessionPolicy, attempts_max: int) -> None:
        self.state = SessionState.HERE
        self.attempts = 0  # that failed since the session was lost
        self.ended = False
        self._policy = policy
        self._attempts_max = attempts_max

    def heard(self, session: Session) -> Effect | None:
        before, self.state = self.state, after(self.state, session)
        if self.state is SessionState.HERE:
            self.attempts = 0
        if self.ended or before is self.state or self.state is not SessionState.GONE:
            return None
        if self._policy is SessionPolicy.SHUTDOWN:
            return self._shut_down("the metadata session is lost, and zookeeperSessionExpiredPolicy is shutdown")
        return self._next()

    def attempt_failed(self) -> Effect | None:
        """No new session began in the pause of the last `TryAgain`."""
        if self.ended or self.state is not SessionState.GONE:
            return None
        self.attempts += 1
        return self._next()

    def validate(self) -> None:
        assert 0 <= self.attempts <= self._attempts_max
        assert self.state is SessionState.GONE or not self.attempts

    def _next(self) -> Effect:
        if self.attempts >= self._attempts_max:
            return self._shut_down(
                f"no session with the metadata store after {self.attempts} attempts "
                "(metadataStoreSessionReconnectAttempts)"
            )
        wait_s = min(SESSION_ATTEMPT_S_MIN * 2.0**self.attempts, SESSION_ATTEMPT_S_MAX)
        return TryAgain(self.attempts + 1, wait_s)

    def _shut_down(self, why: str) -> ShutDown:
        self.ended = True
        return ShutDown(why)


def after(state: SessionState, heard: Session) -> SessionState:
    match heard:
        case Session.CONNECTION_LOST:
            return SessionState.GONE if state is SessionState.GONE else SessionState.AWAY
        case Session.LOST:
            return SessionState.GONE
        case Session.RECONNECTED:
            return SessionState.GONE if state is SessionState.GONE else SessionState.HERE
        case Session.REESTABLISHED:
            return SessionState.HERE
