"""Maps a failed REST call to an error, from its status and its text: the inverse of the server's table of errors.

The status decides if it can. Pulsar uses some statuses for several errors (404, 409, 412); for those the recorded texts
of a real Pulsar decide. A failure inside the server, or behind a proxy, is `Unknown`: the operation may have happened.
"""

from __future__ import annotations

import re
from http import HTTPStatus

import msgspec

from magnetar.base.errors import (
    AlreadyExists,
    Conflict,
    ConnectionLost,
    ConsumerNotFound,
    Fenced,
    IncompatibleSchema,
    InvalidName,
    LimitExceeded,
    MagnetarError,
    Misuse,
    NotAuthenticated,
    NotAuthorized,
    NotBuilt,
    NotEmpty,
    NotFound,
    NotReady,
    QuotaExceeded,
    Refused,
    Sealed,
    StorageFull,
    SubscriptionNotFound,
    Throttled,
    TimedOut,
    TopicNotFound,
    Unknown,
)

Kind = type[MagnetarError]

_BY_STATUS: dict[int, Kind] = {
    400: Misuse,
    401: NotAuthenticated,
    403: NotAuthorized,
    404: NotFound,
    405: Refused,
    406: Refused,
    409: Conflict,
    412: Refused,
    413: LimitExceeded,
    414: LimitExceeded,
    415: Misuse,
    422: Misuse,
    429: Throttled,
    501: NotBuilt,
    502: ConnectionLost,
    503: NotReady,
    504: TimedOut,
    507: StorageFull,
}
# The first pattern that matches the reason decides.
_BY_WORDS: dict[int, list[tuple[str, Kind]]] = {
    404: [
        (r"namespace (name )?not found|namespace .* (does|do) not exist|no such path", NotFound),
        (r"subscription", SubscriptionNotFound),
        (r"consumer", ConsumerNotFound),
        (r"topic", TopicNotFound),
    ],
    409: [
        (r"already exist", AlreadyExists),
        (r"schema", IncompatibleSchema),
        (r"non[- ]?empty|not empty|still has", NotEmpty),
        (r"terminated|sealed", Sealed),
        (r"fenced", Fenced),
    ],
    412: [
        (r"topic name|namespace name|tenant name|not a valid named entity|name is not valid", InvalidName),
        (r"active|connected|in use|cannot be changed|has subscriptions", Conflict),
        (r"quota|exceed|reached the maximum|reach the max", QuotaExceeded),
        (r"invalid|not valid|must be|must |should|requires?\b|count from|illegal|no topic domain", Misuse),
    ],
}
_TRACE = re.compile(r"Message: (.*?) Stacktrace:")  # the rest is a Java stack trace
_PAGE_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_REASON_CHARACTERS_MAX = 500  # a stack trace is not a reason


def error_from(status: int, body: bytes, *, call: str) -> MagnetarError:
    """`call` is "METHOD /path", for the error text."""
    reason = reason_of(status, body)
    kind = _kind(status, reason)
    if issubclass(kind, Unknown) and not call.startswith("GET "):
        reason = f"{reason}: the operation may have happened"
    return kind(reason, http_status=status, call=call)


def reason_of(status: int, body: bytes) -> str:
    """The server's text in one line, or the status if the text is empty."""
    text = body.decode(errors="replace").strip()
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        document = None
    if isinstance(document, dict):
        text = str(document.get("reason") or document.get("message") or "")
    elif isinstance(document, str):
        text = document
    if page := _PAGE_TITLE.search(text):
        text = page[1]
    text = " ".join(text.split())
    if trace := _TRACE.search(text):
        text = trace[1]
    text = text[:_REASON_CHARACTERS_MAX]
    return text or f"the server answered {status} {_phrase(status)}".strip()


def _kind(status: int, reason: str) -> Kind:
    for pattern, kind in _BY_WORDS.get(status, ()):
        if re.search(pattern, reason, re.IGNORECASE):
            return kind
    mapped = _BY_STATUS.get(status)
    if mapped is not None:
        return mapped
    return Refused if status < 500 else Unknown


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
