"""How long a stage is asked for: for long where a broker was once, not for long where there never was one."""

from __future__ import annotations

import pytest

from magnetar.base.errors import TimedOut
from magnetar.base.limits import CLIENT_CONNECT_S, CLIENT_OPERATION_S, CLIENT_STAGE_S
from magnetar.client.client import Client
from magnetar.client.staged_sink import StagedSink
from simulation.environment.inline_runtime import InlineRuntime
from tests.support.virtual_clock import run_on_clock
from tests.unit.topic.world import NoFiles

URL = "pulsar://127.0.0.1:1"


def asked(*, reached: bool) -> tuple[str, float]:
    """What is said of a broker that does not answer, and after how many seconds of a clock that jumps."""
    said: list[tuple[str, float]] = []

    async def body() -> None:
        runtime = InlineRuntime(NoFiles())
        client = Client(URL, runtime=runtime)
        client.pool.reached = reached
        begun_s = runtime.monotonic()
        with pytest.raises(TimedOut) as told:
            await StagedSink(client, "topic://t/n/rows", "s").begin(0)
        said.append((str(told.value), runtime.monotonic() - begun_s))
        await client.close()

    run_on_clock(body)
    return said[0]


def test_unreachable_broker_is_reported_soon_with_address() -> None:
    text, after_s = asked(reached=False)
    assert after_s <= CLIENT_OPERATION_S + CLIENT_CONNECT_S
    assert URL in text
    assert "option url" in text


def test_broker_that_was_there_is_waited_for() -> None:
    _, after_s = asked(reached=True)
    assert after_s > CLIENT_STAGE_S / 2
