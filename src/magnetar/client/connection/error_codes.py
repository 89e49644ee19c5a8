"""Maps a broker's error codes to error classes: one class for each wire code.

The error keeps the code (`wire_code`), so that codes which share a class stay distinct. A code that is missing from the
table is `Unknown`: the operation may have happened.
"""

from __future__ import annotations

from typing import Any

from magnetar.base import errors as e

BY_CODE: dict[int, type[e.MagnetarError]] = {
    0: e.Unknown,
    1: e.Conflict,  # MetadataError: a race between brokers or policy updates; a new lookup resolves it
    2: e.StorageFailed,
    3: e.NotAuthenticated,
    4: e.NotAuthorized,
    5: e.ConsumerBusy,
    6: e.NotReady,
    7: e.QuotaExceeded,
    8: e.QuotaExceeded,
    9: e.BadChecksum,
    10: e.NotBuilt,
    11: e.TopicNotFound,
    12: e.SubscriptionNotFound,
    13: e.ConsumerNotFound,
    14: e.Throttled,
    15: e.Sealed,
    16: e.ProducerBusy,
    17: e.InvalidName,
    18: e.IncompatibleSchema,
    19: e.ConsumerAssignError,
    20: e.NotFound,
    21: e.Conflict,
    22: e.Refused,
    23: e.Conflict,
    24: e.StageNotFound,
    25: e.Fenced,
}


def error_of(code: int, text: str, **facts: Any) -> e.MagnetarError:
    return BY_CODE.get(code, e.Unknown)(text or f"the broker returned error code {code}", wire_code=code, **facts)
