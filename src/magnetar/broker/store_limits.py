"""Holds the limits of the ledger store against the settings: the size of messages and the number of copies.

A store that takes smaller entries than `maxMessageSize` lowers the default, and contradicts a value that was set: then
the broker does not start. Copies that the store cannot keep are reported and ignored, because a stock broker.conf asks
for two. Pure but for the log.
"""

from __future__ import annotations

from typing import NamedTuple

from magnetar.base.errors import Misuse
from magnetar.base.limits import FRAME_PADDING_BYTES, FRAME_PADDING_BYTES_MIN
from magnetar.broker.topics.settings import quorum
from magnetar.ledger.store import LedgerStore
from magnetar.observe.log import get
from magnetar.policy.settings import DEFAULT_LAYER, Settings

log = get("broker")


class SizeLimits(NamedTuple):
    message_bytes_max: int  # what CONNECTED announces
    frame_bytes_max: int


def size_limits(settings: Settings, ledgers: LedgerStore) -> SizeLimits:
    """The largest message and frame. Every entry of such a frame fits the store. Misuse: `maxMessageSize` is set to
    more than the store takes."""
    message_bytes_max = settings.number("maxMessageSize")
    most = ledgers.entry_bytes_max - FRAME_PADDING_BYTES_MIN
    if message_bytes_max > most:
        if settings.explain("maxMessageSize").layer != DEFAULT_LAYER:
            raise Misuse(
                f"maxMessageSize is {message_bytes_max}, but the ledger store takes messages of at most {most} bytes. "
                "Lower it, or raise nettyMaxFrameSizeBytes of the bookies and bookkeeper_nettyMaxFrameSizeBytes"
            )
        log.warning(
            "message_size_lowered", default=message_bytes_max, bytes_max=most, do="raise nettyMaxFrameSizeBytes"
        )
        message_bytes_max = most
    return SizeLimits(message_bytes_max, min(message_bytes_max + FRAME_PADDING_BYTES, ledgers.entry_bytes_max))


def check_copies(settings: Settings, ledgers: LedgerStore) -> None:
    """InvalidRange: the settings contradict each other. Logs a warning if the store keeps fewer copies."""
    copies = quorum(settings)
    if copies is not None and copies.write > ledgers.copies_max:
        log.warning("quorum_not_kept", copies=copies.write, kept=ledgers.copies_max, do="run the brokers on BookKeeper")
