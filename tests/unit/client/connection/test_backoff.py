"""Waits double up to a bound with a little chance in them; only what passes is tried again."""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import (
    Closed,
    Conflict,
    MagnetarError,
    NotAuthorized,
    NotReady,
    ProducerBusy,
    Throttled,
    TimedOut,
    TopicNotFound,
    Unreachable,
)
from magnetar.base.limits import CLIENT_BACKOFF_S_MAX, CLIENT_RECONNECT_S_MAX, CLIENT_REFUSED_S
from magnetar.client.connection.backoff import Backoff, passing, persist, wait_of
from magnetar.client.connection.reconnect import consumer_fatal, producer_fatal
from magnetar.runtime.system_runtime import RealRuntime
from tests.unit.client.world import run


def test_waits_double_to_bound_and_begin_again():
    backoff = Backoff(random.Random(1), first_s=0.1, max_s=1.0)
    steps = [backoff.next_s() for _ in range(6)]
    for found, step in zip(steps, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0], strict=True):
        assert 0.9 * step <= found <= step
    backoff.reset()
    assert backoff.next_s() <= 0.1


def test_waits_stay_short_unless_broker_limits_rate():
    backoff = Backoff(random.Random(1))
    assert max(backoff.next_s(NotReady()) for _ in range(20)) <= CLIENT_RECONNECT_S_MAX
    assert backoff.next_s(Throttled()) > CLIENT_BACKOFF_S_MAX / 2
    backoff.reset()
    assert backoff.next_s(Throttled()) <= 0.1


def test_two_clients_do_not_wait_alike():
    one, other = Backoff(random.Random(1)), Backoff(random.Random(2))
    assert [one.next_s() for _ in range(3)] != [other.next_s() for _ in range(3)]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (NotReady(), True),
        (TimedOut(), True),
        (Conflict(), True),
        (ProducerBusy(), False),
        (TopicNotFound(), False),
        (NotAuthorized(), False),
    ],
)
def test_what_passes(error, passes):
    assert passing(error) is passes
    assert producer_fatal(error, True) is not passes
    assert consumer_fatal(error, True) is not passes


def test_attached_client_ends_only_with_topic_or_client():
    assert not producer_fatal(ProducerBusy(), False)
    assert producer_fatal(TopicNotFound(), False)
    assert not consumer_fatal(TopicNotFound(), False)
    assert producer_fatal(Closed(), False)
    assert consumer_fatal(Closed(), False)


def test_call_is_repeated_until_it_succeeds():
    calls = []

    async def call() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise NotReady("not yet")
        return 7

    async def body() -> None:
        assert await persist(RealRuntime(), 10.0, call, what="the answer") == 7

    run(body)
    assert len(calls) == 3


@pytest.mark.parametrize(("error", "raised"), [(NotReady("never"), TimedOut), (TopicNotFound("gone"), TopicNotFound)])
@pytest.mark.real_clock
async def test_call_that_never_succeeds_says_why(error: MagnetarError, raised: type[MagnetarError]) -> None:
    async def call() -> int:
        raise error

    with pytest.raises(raised) as caught:
        await persist(RealRuntime(), 0.01, call, what="the answer")
    assert caught.value is error or (caught.value.__suppress_context__ and "never" in str(caught.value))


def test_refused_first_connection_is_given_up_after_seconds():
    refused = Unreachable("cannot connect", url="pulsar://localhost:6650")
    assert wait_of(refused, 0.1, elapsed_s=0.0, timeout_s=30.0) == 0.1
    assert wait_of(refused, 3.2, elapsed_s=4.0, timeout_s=30.0) == CLIENT_REFUSED_S - 4.0  # tried once more at the end
    assert wait_of(refused, 3.2, elapsed_s=CLIENT_REFUSED_S, timeout_s=30.0) is None
    assert wait_of(refused, 0.1, elapsed_s=1.0, timeout_s=1.0) is None


def test_other_failure_is_repeated_until_timeout():
    assert wait_of(NotReady(), 3.2, elapsed_s=20.0, timeout_s=30.0) == 3.2
    assert wait_of(NotReady(), 3.2, elapsed_s=27.0, timeout_s=30.0) is None
