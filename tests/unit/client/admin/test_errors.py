"""What a refusal means is read from its status and its words, for our own table of errors and for a real Pulsar's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from magnetar.base import errors
from magnetar.base.errors import MagnetarError, Outcome, Unknown
from magnetar.client.admin.errors import error_from, reason_of
from tests.support.golden_vectors import FOLDER


def refusals() -> Iterator[tuple[str, int, str]]:
    """(call, status, reason) of everything a real Pulsar refused in the recordings, each reason once."""
    seen: set[tuple[int, str]] = set()
    for path in sorted((FOLDER / "rest").glob("*.txt")):
        text = path.read_text()
        for call, status, body in re.findall(
            r"^((?:GET|PUT|POST|DELETE) \S+)\n(?: .*\n)*=> ([45]\d\d).*\n(.*)", text, re.M
        ):
            found = re.fullmatch(r'\{"reason": (".*")\}', body)
            if found and (int(status), found[1]) not in seen:
                seen.add((int(status), found[1]))
                yield call, int(status), json.loads(found[1])


def test_every_recorded_refusal_has_error_class_and_status() -> None:
    told = 0
    for call, status, reason in refusals():
        error = error_from(status, json.dumps({"reason": reason}).encode(), call=call)
        assert type(error) is not MagnetarError
        assert error.http_status == status
        assert error.outcome is (Outcome.INDEFINITE if status == 500 else Outcome.DEFINITE), (call, reason)
        told += 1
    assert told > 100


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (404, "Topic persistent://acme/shop/x not found", errors.TopicNotFound),
        (404, "Subscription s not found for topic persistent://acme/shop/x", errors.SubscriptionNotFound),
        (404, "Namespace not found", errors.NotFound),
        (404, "Tenant not found", errors.NotFound),
        (404, "Message not found", errors.NotFound),
        (409, "Tenant already exist", errors.AlreadyExists),
        (409, "This topic already exists", errors.AlreadyExists),
        (409, "Cannot delete non empty namespace", errors.NotEmpty),
        (409, "Topic x is not the partitioned topic.", errors.Conflict),
        (409, "Error during schema compatibility check", errors.IncompatibleSchema),
        (412, "Topic name is not valid", errors.InvalidName),
        (412, "Cluster name is not valid", errors.InvalidName),
        (412, "Subscription has active connected consumers", errors.Conflict),
        (412, "Invalid value for message TTL, message TTL must >= 0", errors.Misuse),
        (412, "Exceed maximum number of topics in namespace.", errors.QuotaExceeded),
        (412, "Clusters do not exist", errors.Refused),
        (401, "", errors.NotAuthenticated),
        (403, "Unauthorized", errors.NotAuthorized),
        (405, "Skip messages on a partitioned topic is not allowed", errors.Refused),
        (413, "the body must not exceed 1048576 bytes", errors.LimitExceeded),
        (422, "Desired partitions 2 can't be less than the current partitions 5.", errors.Misuse),
        (429, "slow down", errors.Throttled),
        (500, "Request failed.", errors.Unknown),
        (501, "compaction: not supported by this version of Magnetar", errors.NotBuilt),
        (502, "", errors.ConnectionLost),
        (503, "the broker is starting or stopping", errors.NotReady),
        (504, "", errors.TimedOut),
        (507, "", errors.StorageFull),
    ],
)
def test_status_and_words_choose_class(status: int, reason: str, kind: type[MagnetarError]) -> None:
    error = error_from(status, json.dumps({"reason": reason}).encode(), call="POST /x")
    assert type(error) is kind
    assert ("the operation may have happened" in error.what) == issubclass(kind, Unknown)


def test_reading_never_says_that_it_may_have_happened() -> None:
    assert "may have" not in error_from(500, b"", call="GET /x").what


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"reason": "no such thing"}', "no such thing"),
        (b'{"message": "Not Found", "url": "x", "status": "404"}', "Not Found"),
        (b'"plain words"', "plain words"),
        (b"plain words\nin two lines", "plain words in two lines"),
        (b"<html><head><title>Error 404 Not Found</title></head></html>", "Error 404 Not Found"),
        (b"", "the server answered 404 Not Found"),
        (
            b'{"reason": "\\n --- An error ---\\n\\nMessage: null pointer\\n\\nStacktrace:\\n\\njava.lang"}',
            "null pointer",
        ),
        (b"x" * 10_000, "x" * 500),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_reason_is_one_line_whatever_body(body: bytes, said: str) -> None:
    assert reason_of(404, body) == said
