"""The tree of errors: each class says whether the request may have happened, and whether the caller may retry.

Each class carries its outcome, its retry advice, its wire code (Pulsar's ServerError number) and its HTTP status, so
that broker, REST and client agree from one table. Raise the class that is true; never invent a code at the place of
raising unless a recorded exchange of the real Pulsar says so (`wire_code=` and `http_status=` override one
instance).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, ClassVar


class Outcome(Enum):
    DEFINITE = auto()  # we know: it happened, or it did not
    INDEFINITE = auto()  # it may have happened: look before you repeat


class Retry(Enum):
    NEVER = auto()  # the same call fails again
    SAME = auto()  # the same call may succeed later
    REFRESH = auto()  # look again (owner, version, layout), then call


class MagnetarError(Exception):
    """The root. `what` is the sentence for people: what, why, what to do; `facts` are for programs and logs."""

    outcome: ClassVar[Outcome] = Outcome.DEFINITE
    retry: ClassVar[Retry] = Retry.NEVER
    wire: ClassVar[int] = 0
    http: ClassVar[int] = 500

    def __init__(
        self, what: str = "", *, wire_code: int | None = None, http_status: int | None = None, **facts: Any
    ) -> None:
        self.what = what or type(self).__name__
        self.facts = facts
        self.wire_code: int = self.wire if wire_code is None else wire_code
        self.http_status: int = self.http if http_status is None else http_status
        super().__init__(self.what)

    def __str__(self) -> str:
        if not self.facts:
            return self.what
        return self.what + " (" + ", ".join(f"{key}={value}" for key, value in self.facts.items()) + ")"


# The caller's bug; never retried.


class Misuse(MagnetarError):
    """An argument or a call that can never succeed."""

    wire = 22
    http = 412


class InvalidName(Misuse):
    """A name of a topic, namespace, tenant or subscription is malformed."""

    wire = 17


class InvalidRange(Misuse):
    """A number or a hash range is outside its bounds."""


class LimitExceeded(Misuse):
    """A value is above a limit, which the message names."""


class InvalidValue(Misuse):
    """A value that does not fit its producer's schema: `field`, `expected` and `got` are among the facts."""


class Unprotected(Misuse):
    """A configuration asks for a protection that this version does not give: `settings` among the facts names them."""


class InvalidTransition(Misuse):
    """A machine met an event that its state does not know: a bug of ours or of the peer."""


# The system said no; nothing happened.


class Refused(MagnetarError):
    """The broker rejected the call for another reason, which the message gives."""

    wire = 22
    http = 412


class NotAuthenticated(Refused):
    """The caller did not prove its identity."""

    wire = 3
    http = 401


class NotAuthorized(Refused):
    """The caller may not do this."""

    wire = 4
    http = 403


class NotFound(Refused):
    """A ledger, an entry, a record. Topics, subscriptions and consumers have their own codes below."""

    wire = 2
    http = 404


class TopicNotFound(NotFound):
    """The topic does not exist."""

    wire = 11


class SubscriptionNotFound(NotFound):
    """The subscription does not exist."""

    wire = 12


class ConsumerNotFound(NotFound):
    """The consumer does not exist."""

    wire = 13


class StageNotFound(NotFound):
    """A stage, or the sink it belongs to: dropped, or its lease ended. As Pulsar says of a transaction."""

    wire = 24


class DataLost(Refused):
    """Messages that a checkpoint has not read yet were deleted. Nothing behind them is handed out as if they had not
    been there."""


class NoSuchLedger(NotFound):
    """The ledger does not exist."""


class NoSuchEntry(NotFound):
    """The entry does not exist in its ledger."""


class AlreadyExists(Refused):
    """An object of this name exists."""

    http = 409


class Conflict(Refused):
    """A version did not match, a thing is not empty or in use."""

    retry = Retry.REFRESH
    wire = 1
    http = 409


class BadVersion(Conflict):
    """The object changed since the caller read it."""


class NotEmpty(Conflict):
    """The object still contains others."""


class ConsumerBusy(Conflict):
    """Another consumer has the subscription."""

    wire = 5


class ProducerBusy(Conflict):
    """Another producer has the name or the exclusive access."""

    wire = 16


class ConsumerAssignError(Conflict):
    """Sticky hash ranges that overlap or leave the range 0..65535."""

    wire = 19


class IncompatibleSchema(Refused):
    """The schema does not fit the schema of the topic."""

    wire = 18
    http = 409


class QuotaExceeded(Refused):
    """A maximum number or size is reached."""

    retry = Retry.SAME
    wire = 8


class Fenced(Refused):
    """A newer term, epoch or owner exists. 25 for producers; pass wire_code=5 for consumers, 6 elsewhere."""

    retry = Retry.REFRESH
    wire = 25
    http = 409


class Superseded(Fenced):
    """A newer consumer, session or generation replaced the caller."""


class Closed(Refused):
    """The writer, ledger, topic or connection is closed: nothing of this call happened."""

    retry = Retry.REFRESH
    wire = 6
    http = 409


class Sealed(Refused):
    """The topic or segment is terminated: `end` among the facts says where."""

    retry = Retry.REFRESH
    wire = 15
    http = 409


class Moved(Refused):
    """Another broker owns the topic."""

    retry = Retry.REFRESH
    wire = 6
    http = 307


class NotBuilt(Refused):
    """A known command or route of Pulsar that Magnetar does not have yet."""

    http = 501


# Nothing happened, try again.


class Unavailable(MagnetarError):
    """The broker cannot serve the call now."""

    retry = Retry.SAME
    wire = 6
    http = 503


class NotReady(Unavailable):
    """The broker or the object is not ready: it starts, stops or moves."""


class Unreachable(NotReady):
    """Every address of the service URL refused the connection or speaks another protocol, and the client has never had
    a connection: no broker listens there.
    """


class Busy(Unavailable):
    """Too many calls wait, or another operation on the same object is in progress."""


class NotEnoughNodes(Unavailable):
    """Too few storage nodes are available."""


class Throttled(Unavailable):
    """Too many requests of this kind are in progress."""

    wire = 14
    http = 429


class SessionLost(Unavailable):
    """The broker has lost its session with the metadata store and ends: another broker takes its topics."""


class StorageFull(Unavailable):
    """The disk or a quota of it is full: nothing was acknowledged, the node stops taking writes."""

    wire = 2
    http = 507


# It may have happened.


class Unknown(MagnetarError):
    """The reply to a request did not arrive."""

    outcome = Outcome.INDEFINITE
    retry = Retry.REFRESH
    wire = 6
    http = 503


class TimedOut(Unknown):
    """No reply arrived within the timeout."""

    http = 504


class ConnectionLost(Unknown):
    """The connection closed before the reply."""

    http = 503


class StorageFailed(Unknown):
    """A write or sync failed: runs in flight may or may not be on the disk. The writer is dead."""

    wire = 2
    http = 500


# Bytes lie: stop, do not guess.


class Corrupt(MagnetarError):
    """Bytes are damaged or malformed."""

    wire = 2
    http = 500


class BadChecksum(Corrupt):
    """The client's bytes, not ours."""

    wire = 9
    http = 400


class Undecodable(Corrupt):
    """The value of a received message does not fit the consumer's schema: `topic`, `position` and `schema_version` are
    among the facts. Other messages are not affected.
    """


class BadFrame(Corrupt):
    """A frame that cannot be read: the connection is closed with this reason."""

    wire = 22
    http = 400


for _found in list(globals().values()):
    if isinstance(_found, type) and _found.__module__ == __name__:
        _found.__module__ = "magnetar.errors"  # where users find it
