"""An outage is worth a warning at its beginning and once a minute; a refusal is told from other failures."""

from __future__ import annotations

import errno

import pytest

from magnetar.base.limits import CLIENT_OUTAGES_MAX
from magnetar.client.connection.outage import Outages, is_refused, reason

URL = "pulsar://localhost:6650"


def test_first_failure_is_due_and_then_one_minute():
    outages = Outages(log_s=60.0)
    due = [now for now in range(0, 130, 3) if outages.failed(URL, float(now)) is not None]
    assert due == [0, 60, 120]


def test_due_warning_counts_attempts_and_seconds():
    outages = Outages(log_s=60.0)
    assert outages.failed(URL, 10.0) == (1, 0.0)
    assert outages.failed(URL, 20.0) is None
    assert outages.failed(URL, 70.0) == (3, 60.0)


def test_connection_ends_outage_and_next_failure_is_due():
    outages = Outages()
    assert outages.ended(URL, 0.0) is None
    outages.failed(URL, 1.0)
    assert outages.ended(URL, 3.5) == 2.5
    assert outages.failed(URL, 4.0) == (1, 0.0)


def test_first_failure_after_loss_is_due():
    outages = Outages(log_s=60.0)
    outages.lost(URL, 5.0)
    assert outages.failed(URL, 6.0) == (1, 1.0)
    assert outages.failed(URL, 7.0) is None


def test_addresses_have_outages_of_their_own():
    outages = Outages()
    assert outages.failed(URL, 0.0) is not None
    assert outages.failed("pulsar://other:6650", 0.0) is not None


def test_too_many_addresses_forget_oldest():
    outages = Outages()
    for number in range(CLIENT_OUTAGES_MAX + 1):
        outages.failed(f"pulsar://h{number}:6650", 0.0)
    assert outages.failed("pulsar://h1:6650", 1.0) is None
    assert outages.failed("pulsar://h0:6650", 1.0) == (1, 0.0)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 6650)"), True),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed"), True),
        (OSError("Multiple exceptions: [Errno 99] Cannot assign requested address, [Errno 111] failed"), True),
        (OSError("Multiple exceptions: [Errno 110] Connection timed out, [Errno 111] failed"), False),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), False),
        (OSError(errno.EHOSTUNREACH, "No route to host"), False),
        (OSError("name or service not known"), False),
    ],
)
def test_refusal_of_every_address_is_recognised(error, refused):
    assert is_refused(error) is refused


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
                "[Errno 111] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused",
        ),
        (OSError("Multiple exceptions: [Errno 111] failed, [Errno 99] failed"), "Multiple exceptions: failed, failed"),
        (OSError("[Errno -2] Name or service not known"), "Name or service not known"),
        (OSError(), "OSError"),
    ],
)
def test_reason_has_no_system_numbers_or_addresses(error: OSError, text: str) -> None:
    assert reason(error) == text
