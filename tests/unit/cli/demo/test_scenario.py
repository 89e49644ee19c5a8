"""The end of the demo: the verdict as a table, as JSON and as an exit code."""

from __future__ import annotations

import json

import pytest

from magnetar.cli.demo import conclude
from magnetar.cli.demo.delivery_check import DeliveryTally, Kind, Verdict
from magnetar.cli.exit_codes import Exit


def a_verdict(*, lose: bool) -> Verdict:
    tally = DeliveryTally([Kind.EXCLUSIVE, Kind.SHARED])
    tally.kills, tally.splits, tally.merges = 1, 2, 1
    for number in range(3):
        tally.sending()
        tally.receipt(0, number)
        tally.arrivals[Kind.EXCLUSIVE].add(0, number)
        if not lose:
            tally.arrivals[Kind.SHARED].add(0, number)
    return tally.verdict()


def test_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(a_verdict(lose=False), 7.26, "table", colors=True) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        "SUBSCRIPTION  ARRIVED  MISSING  DISORDERED  AGAIN  VERDICT",
        "Exclusive           3        0           0      0  ok",
        "Shared              3        0           -      0  ok",
        "",
        "acknowledged  3 of 3 sent, 0 failed",
        "killed        once, in the middle",
        "reshaped      2 splits and 1 merges of the scalable topic, under traffic",
        "took          7.3 s",
        "verdict       OK: every acknowledged message arrived, in the order of its key",
    ]


def test_lost_message_is_said_and_is_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(a_verdict(lose=True), 7.26, "table", colors=True) == Exit.CHECK_FAILED
    shown = capsys.readouterr().out
    assert "Shared              0        3           -      0  FAILED" in shown
    assert "FAILED: 3 acknowledged messages are missing, 0 arrived out of order" in shown


def test_programs_get_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(a_verdict(lose=True), 7.26, "json", colors=True) == Exit.CHECK_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert [row["missing"] for row in document["subscriptions"]] == [0, 3]
    assert document["took_s"] == 7.3
