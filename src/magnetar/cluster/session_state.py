"""The permitted actions of a broker while its session with the metadata store is interrupted (PIP-57). A decision over
events.

After a lost connection and after a lost session, loaded topics are served and nothing new starts. They end differently:
a restored connection restores its session, but a lost session ends only with a new one.
"""

from __future__ import annotations

from enum import Enum, auto

from magnetar.metadata.store import Session


class SessionState(Enum):
    HERE = auto()
    AWAY = auto()  # the store does not answer; the session may outlive that
    GONE = auto()  # the session is over: others may take what was locked in it


def after(standing: SessionState, heard: Session) -> SessionState:
    match heard:
        case Session.CONNECTION_LOST:
            return SessionState.GONE if standing is SessionState.GONE else SessionState.AWAY
        case Session.LOST:
            return SessionState.GONE
        case Session.RECONNECTED:
            return SessionState.GONE if standing is SessionState.GONE else SessionState.HERE
        case Session.REESTABLISHED:
            return SessionState.HERE
