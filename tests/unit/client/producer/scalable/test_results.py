"""What a flush waits for, and what it raises."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.wire import commands
from magnetar.wire.proto import pb
from tests.support.scalable_publisher import HIGH, LOW, a_world

pytestmark = pytest.mark.real_clock


async def test_flush_waits_for_earlier_sends_and_raises_unreported_errors() -> None:
    async with a_world(receipts=False) as world:
        world.budget.take(1)
        world.publisher.add(b"1", None, None)
        flushing = asyncio.ensure_future(world.publisher.flush())
        await world.came(0, 1)
        world.add(b"2", LOW)
        assert not flushing.done()
        sent = world.scaled.sent(0)[0]
        sent.link.write(commands.send_error(sent.producer, sent.sequence, pb.ChecksumError, "bad"))
        with pytest.raises(MagnetarError, match="bad"):
            await flushing
        assert world.publisher.pending == 1


async def test_flush_continues_after_later_receipt_of_another_segment() -> None:
    async with a_world(2, receipts=False) as world:
        world.add(b"1", LOW)
        flushing = asyncio.ensure_future(world.publisher.flush())
        await world.came(0, 1)
        world.add(b"2", HIGH)
        await world.came(1, 1)
        world.scaled.sent(1)[0].receipt()
        await world.until_told(1)
        assert not flushing.done()
        world.scaled.sent(0)[0].receipt()
        await flushing
        assert world.stored() == [b"2", b"1"]
