"""Watches the session of a broker with the metadata store: performs the decisions of `session_state.py`, counts and
times them.

The engine of the store connects again by itself; an attempt here asks the store whether it did. The keeper does not end
the process: it calls `ended` with the error. It trusts the engine to report the end of its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import MagnetarError, SessionLost
from magnetar.base.limits import OWNERSHIP_WAIT_S
from magnetar.cluster.session_state import Effect, SessionDecider, SessionPolicy, SessionState, ShutDown, TryAgain
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("session_keeper")


class SessionKeeper:
    """Created before the listeners that ask for `state`, so that it hears of a change first."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        *,
        policy: SessionPolicy,
        attempts_max: int,
        ended: Callable[[SessionLost], None],
    ) -> None:
        self.connections_lost = 0
        self.sessions_lost = 0
        self.attempts = 0
        self.away_s = 0.0  # without a session or a connection, in all
        self._store = store
        self._runtime = runtime
        self._ended = ended
        self._decider = SessionDecider(policy, attempts_max)
        self._away_since: float | None = None
        self._owner = Owner("session keeper")
        self._stop = store.on_session(self._heard)

    @property
    def state(self) -> SessionState:
        return self._decider.state

    @property
    def seconds_away(self) -> float:
        """In all, the present absence included."""
        since = self._away_since
        return self.away_s + (0.0 if since is None else self._runtime.monotonic() - since)

    async def close(self) -> None:
        self._stop()
        await self._owner.close()

    def _heard(self, session: Session) -> None:
        before = self.state
        effect = self._decider.heard(session)
        self._note(before, self.state)
        self._perform(effect)

    def _note(self, before: SessionState, state: SessionState) -> None:
        if before is state:
            return
        now = self._runtime.monotonic()
        if before is SessionState.HERE:
            self._away_since = now
            self.connections_lost += 1
        self.sessions_lost += state is SessionState.GONE
        away_s = 0.0 if self._away_since is None else now - self._away_since
        if state is SessionState.HERE:
            self.away_s += away_s
            self._away_since = None
        log.warning("metadata_session_changed", state=state.name.lower(), before=before.name.lower(), seconds=away_s)

    def _perform(self, effect: Effect | None) -> None:
        match effect:
            case TryAgain() if not self._owner.closed:
                self._runtime.spawn(self._owner, self._try(effect))
            case ShutDown(why=why):
                self._runtime.mark("session.ended", why=why)
                self._ended(SessionLost(why))

    async def _try(self, attempt: TryAgain) -> None:
        await asyncio.sleep(attempt.wait_s)
        if self.state is not SessionState.GONE:
            return
        self.attempts += 1
        why = "no new session"
        try:
            async with asyncio.timeout(OWNERSHIP_WAIT_S):
                await self._store.sync(paths.BROKERS)
        except (MagnetarError, TimeoutError) as error:
            why = str(error) or "no answer"
        if self.state is not SessionState.GONE:
            return
        log.warning("metadata_session_attempt_failed", attempt=attempt.attempt, error=why)
        self._perform(self._decider.attempt_failed())
