"""A line has its facts, costs nothing below the level, and is JSON where that was asked for."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import Position
from magnetar.base.limits import LOG_LINES_PER_S_MAX, LOG_ONCE_KEYS_MAX
from magnetar.observe import log as logs


class Unprintable:
    def __str__(self) -> str:
        raise AssertionError("turned into text for nobody")


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (logs.ROOT, *logs.FOREIGN)]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)  # empties the cache of levels


def test_plain_lines_are_event_and_facts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=logs.ROOT)
    logs.get("topic").info("sealed", segment=3, end=Position(7, 41), hash=b"\x01\xff")
    assert [record.getMessage() for record in caplog.records] == ["sealed segment=3 end=7:41 hash=01ff"]
    assert caplog.records[0].name == "magnetar.topic"


def test_below_level_nothing_is_made_of_facts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=logs.ROOT)
    logs.get("topic").debug("seen", fact=Unprintable())
    logs.get("topic").info("seen", fact=Unprintable())
    assert caplog.records == []


def test_once_is_said_once_and_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=logs.ROOT)
    log = logs.get("broker")
    for _ in range(3):
        log.once("unknown command", type=99)
    assert len(caplog.records) == 1
    for n in range(2 * LOG_ONCE_KEYS_MAX):
        log.once("unknown command", type=n)
    assert len(caplog.records) <= LOG_ONCE_KEYS_MAX


def test_configured_as_json_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True, level="info")
    log = logs.get("topic")
    log.debug("unseen")
    log.info("sealed", segment=3, end=Position(7, 41), ok=True)
    try:
        raise ValueError("broken")
    except ValueError as error:
        log.crashed("handler", error, command="SEND")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 2
    facts = {"event": "sealed", "segment": 3, "end": "7:41", "ok": True, "component": "topic"}
    assert lines[0].items() >= facts.items()
    assert (lines[0]["level"], lines[1]["level"]) == ("info", "error")
    assert "ValueError: broken" in lines[1]["exception"]
    assert lines[1]["command"] == "SEND"


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_traceback_shows_no_local_variable(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """D8: one of them is the request, with the token of whoever asked."""
    logs.configure(json=as_json, level="info")
    try:
        headers = {"authorization": "Bearer eyJTHE-TOKEN"}
        raise ValueError(f"broken, with {len(headers)} header")
    except ValueError as error:
        logs.get("admin").crashed("request crashed", error, path="/x")
    written = capsys.readouterr().err
    assert "ValueError: broken, with 1 header" in written
    assert "raise ValueError(" in written
    assert "eyJ" not in written


def test_configured_as_json_web_servers_own_lines_are_objects_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True, level="info")
    logging.getLogger("uvicorn.error").warning("Invalid %s request received.", "HTTP")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["event"], found["component"]) == ("Invalid HTTP request received.", "uvicorn.error")


def test_configured_for_people_line_has_event_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=False, level="warning")
    logs.get("topic").warning("full", path="/data")
    printed = capsys.readouterr().err
    assert "full" in printed
    assert "/data" in printed


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_value_of_peer_is_cut_and_cannot_move_cursor(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """D13"""
    logs.configure(json=as_json, level="info")
    client = "\x1b]0;title\x07\x1b[2J\nforged line\u202e\x00"
    logs.get("connection").info("opened", client=client, version="v" * 60_000, raw=b"\x1b" * 60_000)
    logging.getLogger("uvicorn.error").warning("Invalid %s", client)
    try:
        raise ValueError(client + "w" * 60_000)
    except ValueError as error:
        logs.get("connection").crashed("crashed", error)
    written = capsys.readouterr().err
    assert not [one for one in written if not one.isprintable() and one != "\n"]
    assert "title" in written
    assert len(written) < 30_000
    assert "(60000 characters)" in written
    assert not [line for line in written.splitlines() if line.startswith("forged")]


def test_lines_of_one_kind_are_limited_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """D13"""
    logs.configure(json=True, level="info")
    log = logs.get("connection")
    for number in range(1_000):
        log.warning("refused", number=number)
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        log.once("told once", number=number)
    log.info("other")
    logs.settle(time.time() + 2)
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    count = Counter(one["event"] for one in events)
    assert count["told once"] == LOG_ONCE_KEYS_MAX
    assert count["other"] == 1
    assert LOG_LINES_PER_S_MAX <= count["refused"] <= 100
    left_out = sum(one["lines"] for one in events if one["event"] == "log_lines_dropped" and "refused" in one["of"])
    assert count["refused"] + left_out == 1_000


def test_unknown_level_is_refused() -> None:
    with pytest.raises(Misuse, match="debug, info, warning, error"):
        logs.configure(json=False, level="loud")
