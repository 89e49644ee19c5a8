"""What a broker may begin while its session with the metadata store comes and goes (PIP-57). A decision over events.

A lost connection and a lost session are alike in this: what is served is served on, nothing new is begun. They differ
in how they end: a connection that is back brings its session with it, a lost session ends only with another one.
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
