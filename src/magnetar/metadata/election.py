"""Election of one leader among processes: an ephemeral record whose value names the leader.

The process that creates the record leads; the others follow and retry when the record disappears. The loss of a session
alone does not change the reported state: the record is read again when a session exists. Terms and compare-and-set
protect the writes of a leader, not this election.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto

from magnetar.base.errors import BadVersion, Closed, MagnetarError, NotFound, TimedOut, Unavailable, Unknown
from magnetar.base.limits import ELECTION_RETRY_S, LEADER_WAIT_S
from magnetar.metadata.store import ABSENT, Change, Event, MetadataStore, Session
from magnetar.runtime.runtime import Owner, Runtime


class State(Enum):
    NO_LEADER = auto()  # an election is open
    LEADING = auto()
    FOLLOWING = auto()


class Election:
    """Calls `heard` at each change of state. `leader_value` is the value of the current leader, as far as this process
    knows."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        path: str,
        value: bytes,
        heard: Callable[[State], None] | None = None,
    ) -> None:
        self.path = path
        self.value = value
        self.state = State.NO_LEADER
        self.leader_value: bytes | None = None
        self._stood = False  # a record of ours may be there
        self._store = store
        self._runtime = runtime
        self._heard_state = heard
        self._owner = Owner(f"election {path}")
        self._again = False
        self._running = False
        self._decided = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._stops = [store.subscribe(path, self._heard), store.on_session(self._heard_session)]

    def start(self) -> None:
        """Takes part in the election. `leader` returns when it is decided."""
        self._elect_soon()

    async def leader(self, wait_s: float = LEADER_WAIT_S) -> bytes:
        """The value of the leader; waits while an election is open. TimedOut: still no leader."""
        try:
            async with asyncio.timeout(wait_s):
                await self._decided.wait()
        except TimeoutError:
            raise TimedOut("no leader was elected in time", path=self.path) from None
        assert self.leader_value is not None
        return self.leader_value

    async def close(self) -> None:
        """Steps down if leading, and ends the participation."""
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()
        await self._owner.close()
        if self._stood:
            try:
                await self._step_down()
            except (NotFound, BadVersion, Unknown, Unavailable, Closed):
                pass  # gone, another's, or gone with the session
        self._become(State.NO_LEADER, None)

    def _elect_soon(self) -> None:
        self._again = True
        if self._running or self._owner.closed:
            return
        self._running = True
        self._runtime.spawn(self._owner, self._elect())

    async def _elect(self) -> None:
        try:
            while self._again:
                self._again = False
                try:
                    await self._round()
                except BadVersion:
                    self._again = True  # another process was faster: read the record again
                except MagnetarError:
                    self._retry_later()
        finally:
            self._running = False

    async def _round(self) -> None:
        node = await self._store.fresh(self.path)
        if node is not None and node.value == self.value and node.stat.mine:
            self._stood = True
            self._become(State.LEADING, self.value)
            return
        if node is not None and node.value != self.value and not node.stat.mine:
            self._become(State.FOLLOWING, node.value)
            return
        if node is not None:  # mine from an older session, or left by this one with another value
            try:
                await self._store.delete(self.path, expected=node.stat.version)
            except NotFound:
                pass
        self._stood = True
        await self._store.put(self.path, self.value, expected=ABSENT, ephemeral=True)
        self._become(State.LEADING, self.value)

    async def _step_down(self) -> None:
        """Reads the record instead of using memory: a put without an answer may have made this process the leader."""
        node = await self._store.fresh(self.path)
        if node is not None and node.stat.mine and node.value == self.value:
            await self._store.delete(self.path, expected=node.stat.version)

    def _become(self, state: State, value: bytes | None) -> None:
        changed = state is not self.state
        self.state, self.leader_value = state, value
        if state is State.NO_LEADER:
            self._decided.clear()
        else:
            self._decided.set()
        if changed and self._heard_state is not None:
            self._heard_state(state)

    def _heard(self, event: Event) -> None:
        if event.path != self.path and event.change is not Change.RESYNC:
            return
        if event.change is Change.DELETED and not self._running:
            self._become(State.NO_LEADER, None)
        if event.change is not Change.CHILDREN_CHANGED:
            self._elect_soon()

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self._elect_soon()

    def _retry_later(self) -> None:
        if self._timer is not None or self._owner.closed:
            return

        def again() -> None:
            self._timer = None
            self._elect_soon()

        self._timer = asyncio.get_running_loop().call_later(ELECTION_RETRY_S, again)
