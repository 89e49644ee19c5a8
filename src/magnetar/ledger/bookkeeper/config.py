"""The settings of the client of BookKeeper, with Pulsar's defaults for the quorums."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.limits import BOOKKEEPER_FRAME_BYTES_MAX, BOOKKEEPER_REQUEST_S, BOOKKEEPER_SPECULATE_S
from magnetar.ledger.bookkeeper.digest import DigestType
from magnetar.ledger.store import Quorum
from magnetar.metadata.paths import LEDGERS

DEFAULT_QUORUM = Quorum(2, 2, 2)


@dataclass(frozen=True, slots=True)
class BookKeeperConfig:
    """`frame_bytes_max`: the limit of the bookies, `nettyMaxFrameSizeBytes` in their settings. `password`: of new
    ledgers; BookKeeper keeps it in clear text."""

    root: str = LEDGERS
    quorum: Quorum = DEFAULT_QUORUM
    digest: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    frame_bytes_max: int = BOOKKEEPER_FRAME_BYTES_MAX
    request_s: float = BOOKKEEPER_REQUEST_S
    speculate_s: float = BOOKKEEPER_SPECULATE_S
