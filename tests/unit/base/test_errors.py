"""The tree of errors is one table: every class says what it is on the wire, over HTTP, and to whoever may retry."""

from __future__ import annotations

import pytest

from magnetar.base import errors
from magnetar.base.errors import MagnetarError, Outcome, Retry
from magnetar.wire.proto import pb

CLASSES = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, MagnetarError)]
GROUPS = (errors.Misuse, errors.Refused, errors.Unavailable, errors.Unknown, errors.Corrupt)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_code_that_peers_know(kind):
    assert kind.wire in pb.ServerError.values()
    assert 400 <= kind.http < 600 or kind is errors.Moved
    assert kind is MagnetarError or sum(issubclass(kind, group) for group in GROUPS) == 1


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_only_unknown_outcomes_are_indefinite(kind):
    assert (kind.outcome is Outcome.INDEFINITE) == issubclass(kind, errors.Unknown)
    if issubclass(kind, errors.Misuse | errors.Corrupt):
        assert kind.retry is Retry.NEVER
    if issubclass(kind, errors.Unavailable):
        assert kind.retry is Retry.SAME


@pytest.mark.parametrize(
    ("kind", "wire", "http"),
    [
        (errors.InvalidName, pb.InvalidTopicName, 412),
        (errors.LimitExceeded, pb.NotAllowedError, 412),
        (errors.NotAuthenticated, pb.AuthenticationError, 401),
        (errors.NotAuthorized, pb.AuthorizationError, 403),
        (errors.TopicNotFound, pb.TopicNotFound, 404),
        (errors.SubscriptionNotFound, pb.SubscriptionNotFound, 404),
        (errors.ConsumerNotFound, pb.ConsumerNotFound, 404),
        (errors.Conflict, pb.MetadataError, 409),
        (errors.ConsumerBusy, pb.ConsumerBusy, 409),
        (errors.ProducerBusy, pb.ProducerBusy, 409),
        (errors.IncompatibleSchema, pb.IncompatibleSchema, 409),
        (errors.Fenced, pb.ProducerFenced, 409),
        (errors.Sealed, pb.TopicTerminatedError, 409),
        (errors.NotReady, pb.ServiceNotReady, 503),
        (errors.Throttled, pb.TooManyRequests, 429),
        (errors.NotBuilt, pb.NotAllowedError, 501),
        (errors.BadChecksum, pb.ChecksumError, 400),
        (errors.Corrupt, pb.PersistenceError, 500),
    ],
)
def test_codes_are_those_of_table(kind, wire, http):
    assert (kind.wire, kind.http) == (wire, http)


def test_one_instance_may_carry_another_code():
    error = errors.Fenced("a newer consumer took over", wire_code=5, http_status=412, term=3)
    assert (error.wire_code, error.http_status, error.facts) == (5, 412, {"term": 3})
    assert str(error) == "a newer consumer took over (term=3)"
    assert errors.Fenced().wire_code == 25
    assert str(errors.Fenced()) == "Fenced"
