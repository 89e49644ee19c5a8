"""Limits of the product made small while a world runs, so that a small and short world meets them.

The limits are constants of `base/limits.py`; the behaviour at a limit is the product's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from magnetar.client.consumer.receive import delivery
from magnetar.client.consumer.receive.chunks import ChunkAssembler
from magnetar.client.producer import batch
from magnetar.ledger import clock


@contextmanager
def small_limits(chunked_bytes: int, clock_trusted_s: float) -> Iterator[None]:
    """`chunked_bytes`: the largest chunked message that consumers assemble and producers send. `clock_trusted_s`: the
    time after which a broker trusts its clock. 0: the real limit."""
    with ExitStack() as stack:
        if chunked_bytes:
            stack.enter_context(patch.object(batch, "CHUNKED_BYTES_MAX", chunked_bytes))
            stack.enter_context(
                patch.object(delivery, "ChunkAssembler", partial(ChunkAssembler, bytes_max=chunked_bytes))
            )
        if clock_trusted_s:
            stack.enter_context(patch.object(clock, "CLOCK_START_TRUSTED_S", clock_trusted_s))
        yield
