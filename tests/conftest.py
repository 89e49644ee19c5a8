"""What every suite shares: no silent skips where CI asks for everything, one budget of time for fuzzing, and no broker
whose loop stands still.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from magnetar.base import validation
from magnetar.base.limits import TESTING_TURN_S_MAX
from tests.support import long_turns

pytest_plugins = ["tests.support.async_tests"]

validation.enable()

REQUIRE_ALL = os.environ.get("MAGNETAR_REQUIRE") == "all"

# A slow machine is no counter-example: no deadlines. Found examples are printed as code to paste, not kept on disk.
settings.register_profile("house", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# What a shell puts in the background ignores SIGINT, and so would everything that is started here: Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    if call.when != "setup":
        _refuse_long_turns(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.fixture
def fuzz_s(request: pytest.FixtureRequest) -> float:
    """Seconds this fuzz test may use: its share of MAGNETAR_FUZZ_S (a minute unless told otherwise)."""
    sharers = sum("fuzz_s" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return float(os.environ.get("MAGNETAR_FUZZ_S", "60")) / max(sharers, 1)


def _refuse_long_turns(report: pytest.TestReport) -> None:
    turns = long_turns.take()
    if turns and report.passed:
        report.outcome = "failed"
        report.longrepr = (
            "a turn of a broker's loop took too much processor time, and the broker served no other client: the limit "
            f"is {TESTING_TURN_S_MAX} s\n" + "\n".join(turns)
        )


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"MAGNETAR_REQUIRE=all, and this was skipped: {reason}"
