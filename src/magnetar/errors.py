"""Every error that the client raises: the cause, whether the operation may have taken effect, and whether to retry.

    try:
        producer.send(order)
    except magnetar.errors.TimedOut:  # the message may be stored: see `error.outcome`
        ...

`MagnetarError` is the root. `Misuse` is a mistake of the caller. `Refused` means that nothing happened, `Unavailable`
that nothing happened and the same call may succeed later, `Unknown` that the operation may have happened. Each error
has `what`, the message text, and `facts`, the values in it.
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
    if name == "NoMessage":  # part of the client, which `errors` alone does not import
        from magnetar.client.consumer.receive.waiters import NoMessage

        return NoMessage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
