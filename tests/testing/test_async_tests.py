"""The plugin for async tests, by suites that a pytest of their own runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testing.suites import Outcome, run_suite

ROOT = Path(__file__).parents[2]
PARTY = """
    from __future__ import annotations

    import asyncio

    import pytest

    from tests.support.async_tests import provides

    EVENTS = []

    class Party:
        def __init__(self, guests):
            self.guests = guests

    @provides(Party)
    async def party(guests=1, fails=False):
        EVENTS.append("start")
        yield Party(guests)
        EVENTS.append("stop")
        assert not fails, "the party fails at its end"
"""


def outcome(folder: Path, text: str, head: str = "import asyncio\n\nimport pytest\n") -> Outcome:
    """The suite runs from its own folder, with this repository on the path."""
    options = ("-p", "tests.support.async_tests", "--strict-markers", "-o", f"pythonpath={ROOT} {ROOT / 'src'}")
    return run_suite(folder / "suite", {"test_suite.py": head + text}, *options, environment={"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("mark", ["", "@pytest.mark.real_clock\n"], ids=["virtual", "real"])
def test_failing_async_test_fails(tmp_path: Path, mark: str) -> None:
    text = f"{mark}async def test_wrong():\n    await asyncio.sleep(0)\n    assert 1 == 2, 'not equal'\n"
    ran = outcome(tmp_path, text)
    assert ran.passed == []
    assert "not equal" in ran.failed["test_wrong"]


def test_async_test_that_waits_for_nothing_fails_at_once(tmp_path: Path) -> None:
    ran = outcome(tmp_path, "async def test_stuck():\n    await asyncio.get_running_loop().create_future()\n")
    assert ran.passed == []
    assert "nothing is ready and no timer is set" in ran.failed["test_stuck"]


def test_real_clock_test_that_never_finishes_times_out(tmp_path: Path) -> None:
    text = "import tests.support.async_tests\ntests.support.async_tests.REAL_TIMEOUT_S = 0.01\n"
    text += "@pytest.mark.real_clock\nasync def test_stuck():\n    await asyncio.get_running_loop().create_future()\n"
    ran = outcome(tmp_path, text)
    assert ran.passed == []
    assert "TimeoutError" in ran.failed["test_stuck"]


def test_failing_background_task_fails_async_test(tmp_path: Path) -> None:
    text = "def fail():\n    raise ValueError('in the background')\n\n"
    text += "async def test_callback():\n    asyncio.get_running_loop().call_soon(fail)\n"
    ran = outcome(tmp_path, text)
    assert ran.passed == []
    assert "in the background" in ran.failed["test_callback"]


def test_async_test_sleeps_hour_without_delay(tmp_path: Path) -> None:
    ran = outcome(tmp_path, "async def test_long():\n    await asyncio.sleep(3600)\n")
    assert (ran.passed, ran.failed) == (["test_long"], {})


def test_async_test_receives_fixtures_and_parameters(tmp_path: Path) -> None:
    text = "@pytest.fixture\ndef one():\n    return 1\n\n"
    text += "@pytest.mark.parametrize('two', [2, 3])\nasync def test_sum(one, two):\n    assert one + two == 3\n"
    ran = outcome(tmp_path, text)
    assert ran.passed == ["test_sum[2]"]
    assert list(ran.failed) == ["test_sum[3]"]


def test_provider_starts_before_test_and_stops_after(tmp_path: Path) -> None:
    text = """
    async def test_one(party: Party):
        assert (party.guests, EVENTS) == (1, ["start"])

    @pytest.mark.setup(guests=5)
    async def test_five(party: Party, tmp_path):
        assert (party.guests, EVENTS, tmp_path.is_dir()) == (5, ["start", "stop", "start"], True)

    def test_stopped():
        assert EVENTS == ["start", "stop", "start", "stop"]
    """
    ran = outcome(tmp_path, text, PARTY)
    assert (ran.passed, ran.failed) == (["test_one", "test_five", "test_stopped"], {})


def test_failing_provider_fails_async_test(tmp_path: Path) -> None:
    text = "\n    @pytest.mark.setup(fails=True)\n    async def test_one(party: Party):\n        assert party\n"
    ran = outcome(tmp_path, text, PARTY)
    assert ran.passed == []
    assert "the party fails at its end" in ran.failed["test_one"]


def test_setup_mark_without_provider_fails(tmp_path: Path) -> None:
    ran = outcome(tmp_path, "@pytest.mark.setup(guests=5)\nasync def test_none():\n    pass\n")
    assert ran.passed == []
    assert "exactly one parameter with a provider" in ran.failed["test_none"]
