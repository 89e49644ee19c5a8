"""Every error that the client raises: what happened, whether it may have happened, and whether to try again.

    try:
        producer.send(order)
    except magnetar.errors.TimedOut:  # it may be stored: see `error.outcome`
        ...

`MagnetarError` is the root. `Misuse` is a mistake of the caller; `Refused` says that nothing happened; `Unavailable`
that nothing happened and the same call may succeed later; `Unknown` that it may have happened. Each error has `what`,
the sentence, and `facts`, the values in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import (
    AlreadyExists,
    BadChecksum,
    BadFrame,
    BadVersion,
    Busy,
    Closed,
    Conflict,
    ConnectionLost,
    ConsumerAssignError,
    ConsumerBusy,
    ConsumerNotFound,
    Corrupt,
    DataLost,
    Fenced,
    IncompatibleSchema,
    InvalidName,
    InvalidRange,
    InvalidTransition,
    InvalidValue,
    LimitExceeded,
    MagnetarError,
    Misuse,
    Moved,
    NoSuchEntry,
    NoSuchLedger,
    NotAuthenticated,
    NotAuthorized,
    NotBuilt,
    NotEmpty,
    NotEnoughNodes,
    NotFound,
    NotReady,
    Outcome,
    ProducerBusy,
    QuotaExceeded,
    Refused,
    Retry,
    Sealed,
    StageNotFound,
    StorageFailed,
    StorageFull,
    SubscriptionNotFound,
    Superseded,
    Throttled,
    TimedOut,
    TopicNotFound,
    Unavailable,
    Undecodable,
    Unknown,
    Unreachable,
    _found,
)

if TYPE_CHECKING:
    from magnetar.client.consumer.receive.waiters import NoMessage

__all__ = [
    "AlreadyExists",
    "BadChecksum",
    "BadFrame",
    "BadVersion",
    "Busy",
    "Closed",
    "Conflict",
    "ConnectionLost",
    "ConsumerAssignError",
    "ConsumerBusy",
    "ConsumerNotFound",
    "Corrupt",
    "DataLost",
    "Fenced",
    "IncompatibleSchema",
    "InvalidName",
    "InvalidRange",
    "InvalidTransition",
    "InvalidValue",
    "LimitExceeded",
    "MagnetarError",
    "Misuse",
    "Moved",
    "NoMessage",
    "NoSuchEntry",
    "NoSuchLedger",
    "NotAuthenticated",
    "NotAuthorized",
    "NotBuilt",
    "NotEmpty",
    "NotEnoughNodes",
    "NotFound",
    "NotReady",
    "Outcome",
    "ProducerBusy",
    "QuotaExceeded",
    "Refused",
    "Retry",
    "Sealed",
    "StageNotFound",
    "StorageFailed",
    "StorageFull",
    "SubscriptionNotFound",
    "Superseded",
    "Throttled",
    "TimedOut",
    "TopicNotFound",
    "Unavailable",
    "Undecodable",
    "Unknown",
    "Unreachable",
    "_found",
]


def __getattr__(name: str) -> object:
    if name == "NoMessage":  # comes with the client, which errors alone do not load
        from magnetar.client.consumer.receive.waiters import NoMessage

        return NoMessage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
