"""A line has its facts, costs nothing below the level, and is JSON where that was asked for."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import Position
from magnetar.base.limits import LOG_ONCE_KEYS_MAX
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


def test_below_the_level_nothing_is_made_of_the_facts(caplog: pytest.LogCaptureFixture) -> None:
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


def test_configured_as_json_a_line_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert lines[0].items() >= {"event": "sealed", "segment": 3, "end": "7:41", "ok": True, "room": "topic"}.items()
    assert (lines[0]["level"], lines[1]["level"]) == ("info", "error")
    assert "ValueError: broken" in lines[1]["exception"]
    assert lines[1]["command"] == "SEND"


def test_configured_as_json_the_web_servers_own_lines_are_objects_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True, level="info")
    logging.getLogger("uvicorn.error").warning("Invalid %s request received.", "HTTP")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["event"], found["room"]) == ("Invalid HTTP request received.", "uvicorn.error")


def test_configured_for_people_a_line_has_event_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=False, level="warning")
    logs.get("topic").warning("full", path="/data")
    printed = capsys.readouterr().err
    assert "full" in printed
    assert "/data" in printed


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(Misuse, match="debug, info, warning, error"):
        logs.configure(json=False, level="loud")
