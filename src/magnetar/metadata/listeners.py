"""Registration and notification of listeners: the part of `subscribe` and `on_session` that all engines share.

Listeners are called in the order of subscription, on the loop. An exception of a listener is reported to the loop; the
other listeners are still called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from magnetar.metadata.path_checks import ancestors, check_prefix
from magnetar.metadata.store import Change, Event, Session, Unsubscribe

T = TypeVar("T")
Heard = Callable[[Event], None]


class Listeners:
    def __init__(self) -> None:
        self._by_prefix: dict[str, list[Heard]] = {}
        self._sessions: list[Callable[[Session], None]] = []

    def subscribe(self, prefix: str, heard: Heard) -> Unsubscribe:
        check_prefix(prefix)
        self._by_prefix.setdefault(prefix, []).append(heard)

        def unsubscribe() -> None:
            listening = self._by_prefix.get(prefix, [])
            if heard in listening:
                listening.remove(heard)
                if not listening:
                    del self._by_prefix[prefix]

        return unsubscribe

    def on_session(self, heard: Callable[[Session], None]) -> Unsubscribe:
        self._sessions.append(heard)

        def unsubscribe() -> None:
            if heard in self._sessions:
                self._sessions.remove(heard)

        return unsubscribe

    def hears(self, path: str) -> bool:
        """Whether a listener is registered for this path or one of its ancestors."""
        return any(prefix in self._by_prefix for prefix in ancestors(path))

    def tell(self, events: Iterable[Event]) -> None:
        if not self._by_prefix:
            return
        for event in events:
            if event.change is Change.RESYNC:
                self._tell_resync(event)
                continue
            for prefix in ancestors(event.path):
                for heard in list(self._by_prefix.get(prefix, ())):
                    _call(heard, event)

    def tell_session(self, session: Session) -> None:
        for heard in list(self._sessions):
            _call(heard, session)

    def clear(self) -> None:
        self._by_prefix.clear()
        self._sessions.clear()

    def _tell_resync(self, event: Event) -> None:
        """Notifies every listener with a prefix above or below: each may have missed an event."""
        above = set(ancestors(event.path))
        below = event.path if event.path == "/" else event.path + "/"
        for prefix in list(self._by_prefix):
            if prefix in above or prefix.startswith(below):
                for heard in list(self._by_prefix.get(prefix, ())):
                    _call(heard, event)


def _call(heard: Callable[[T], None], event: T) -> None:
    try:
        heard(event)
    except Exception as error:  # a listener's bug must not hide the event from the others; the loop's owner hears of it
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a metadata listener raised an error on {event}", "exception": error}
        )
