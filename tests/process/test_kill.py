"""`kill -9` under load, again and again: a real broker process, its real files, clients that saw every receipt.

After each kill the broker starts on the same folder, the clients come back, and everything owed must come again before
the next kill; some kills come while it is still recovering. MAGNETAR_KILLS says how many, MAGNETAR_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from simulation.crash import rules
from simulation.crash.frame_clients import (
    ack_batch_indexes,
    ack_cumulatively,
    ack_each,
    ack_some,
)
from tests.process.swarm import Swarm
from tests.servers.standalone import Standalone

KILLS = int(os.environ.get("MAGNETAR_KILLS", "50"))  # with the slow tests; a fifth of it in every make test
SEED = int(os.environ.get("MAGNETAR_SEED", random.randrange(1 << 30)))
FLUSHED_S = 1.1  # after which cursors are on disk; killed earlier, a broker delivers all of its life again
PLAIN, ONCE, KEYED = (f"persistent://public/{name}" for name in ("default/plain", "once/exact", "default/keyed"))
SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": 300,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "brokerDeduplicationEntriesInterval": 100,
}


@pytest.mark.parametrize("kills", [KILLS // 5, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_killed_again_and_again_broker_keeps_every_promise(tmp_path: Path, kills: int) -> None:
    with Standalone(tmp_path, SETTINGS) as broker:
        broker.admin("PUT", "namespaces/public/once", {"deduplicationEnabled": True})
        asyncio.run(killed_under_load(broker, kills))
    log = broker.output.read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") - 2000 :][:6000]


async def killed_under_load(broker: Standalone, kills: int) -> None:
    swarm = a_swarm(broker)
    await swarm.subscribe_first()
    swarm.start()
    try:
        for kill in range(kills):
            if kill % 5 != 4:  # every fifth comes before it has recovered, and before its clients are back
                await swarm.owed(f"before kill {kill}")
            await asyncio.sleep(swarm.chance.uniform(0.0, 0.3) + (FLUSHED_S if kill % 5 == 2 else 0.0))
            broker.kill()
            await swarm.gone()
            swarm.history.next_life()
            if kill % 10 == 9:
                assert rules.check_running(swarm.history) == [], f"seed {SEED}, after {kill + 1} kills"
            broker.start()
        await swarm.at_rest("after the last kill")
    finally:
        await swarm.stop()
    assert len(swarm.history.deliveries) > 20 * kills, "too little happened to show anything"


def a_swarm(broker: Standalone) -> Swarm:
    swarm = Swarm(broker.port, SEED)
    swarm.history.once.add(ONCE)
    for topic, names in ((PLAIN, "pq"), (ONCE, "rs"), (KEYED, "k")):
        for name in names:
            swarm.publisher(topic, name)
    swarm.subscriber(PLAIN, "all", "Exclusive", ack_cumulatively)
    swarm.subscriber(PLAIN, "part", "Shared", ack_some)
    swarm.subscriber(ONCE, "over", "Failover", ack_each)
    swarm.subscriber(ONCE, "bits", "Shared", ack_batch_indexes)
    swarm.subscriber(KEYED, "keys", "Key_Shared", ack_each)
    swarm.subscriber(KEYED, "keys", "Key_Shared", ack_each)
    return swarm
