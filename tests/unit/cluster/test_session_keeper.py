"""A lost session: attempts with a growing pause, the end of the process, and what is counted."""

from __future__ import annotations

from typing import Any

from magnetar.base.errors import SessionLost
from magnetar.base.limits import SESSION_ATTEMPT_S_MAX
from magnetar.cluster.session_keeper import SessionKeeper
from magnetar.cluster.session_state import SessionPolicy, SessionState
from simulation.environment.inline_runtime import InlineRuntime
from simulation.stores.metadata import MemoryStore
from tests.support.virtual_clock import pass_s, settle
from tests.unit.topic.world import NoFiles


def a_keeper(policy: SessionPolicy = SessionPolicy.RECONNECT) -> tuple[MemoryStore, SessionKeeper, list[SessionLost]]:
    files: Any = NoFiles()
    runtime = InlineRuntime(files)
    store = MemoryStore(runtime)
    ended: list[SessionLost] = []
    return store, SessionKeeper(store, runtime, policy=policy, attempts_max=10, ended=ended.append), ended


async def test_lost_session_ends_process_after_ten_attempts() -> None:
    store, keeper, ended = a_keeper()
    store.lose_session(server_side=True)
    await pass_s(1 + 2 + 4 + 8 + 16 + 32 + 3 * SESSION_ATTEMPT_S_MAX + 1)
    assert (keeper.attempts, ended) == (9, [])
    await pass_s(SESSION_ATTEMPT_S_MAX)
    assert keeper.attempts == 10
    assert "after 10 attempts" in str(ended[0])
    await pass_s(1000)
    assert len(ended) == 1
    await keeper.close()


async def test_new_session_ends_attempts_and_is_timed() -> None:
    store, keeper, ended = a_keeper()
    store.lose_session(server_side=True)
    await pass_s(20)
    assert keeper.state is SessionState.GONE
    store.regain_session()
    await settle()
    assert keeper.state is SessionState.HERE
    await pass_s(1000)
    assert ended == []
    assert (keeper.sessions_lost, keeper.connections_lost) == (1, 1)
    assert 19 < keeper.seconds_away < 21
    await keeper.close()


async def test_policy_shutdown_ends_process_at_loss() -> None:
    store, keeper, ended = a_keeper(SessionPolicy.SHUTDOWN)
    store.reconnect()  # a connection that was lost and came back ends nothing
    assert ended == []
    store.lose_session(server_side=True)
    assert "zookeeperSessionExpiredPolicy" in str(ended[0])
    await keeper.close()
