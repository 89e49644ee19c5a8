"""What a broker's error codes mean to a client: one class of the tree for each wire code.

The code itself stays on the error (`wire_code`), so that nothing is lost where several codes share a class. Codes
that this table does not know are `Unknown`: it may have happened.
"""

from __future__ import annotations

from typing import Any

from magnetar.base import errors as e

BY_CODE: dict[int, type[e.MagnetarError]] = {
    0: e.Unknown,
    1: e.Conflict,  # MetadataError: a race of brokers or of policies, gone after another look
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
    return BY_CODE.get(code, e.Unknown)(text or f"the broker refused with code {code}", wire_code=code, **facts)
