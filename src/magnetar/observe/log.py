"""The structured log: nouns and facts, `log.info("sealed", segment=3, end=pos)`, never prose.

Stands on the standard library's logging alone, where a line reads `sealed segment=3 end=7:41`; a node calls `configure`
once and then renders through structlog, for people or as one JSON object a line. A call below the level costs one
comparison; facts are turned into text only when a line is written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from magnetar.base.errors import Misuse
from magnetar.base.limits import LOG_ONCE_KEYS_MAX

ROOT = "magnetar"
FOREIGN = ("uvicorn", "asyncio")  # what a node stands on: its lines are written as ours, never raw between them
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

logging.getLogger(ROOT).addHandler(logging.NullHandler())  # a library says nothing until it is asked to


class Said:
    """One line: what happened, and to what."""

    __slots__ = ("event", "facts")

    def __init__(self, event: str, facts: Mapping[str, object]) -> None:
        self.event = event
        self.facts = facts

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{key}={_plain(value)}" for key, value in self.facts.items())])


class Log:
    __slots__ = ("_logger", "_once", "enabled")

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{name}")
        self._once: dict[str, None] = {}
        self.enabled = self._logger.isEnabledFor

    def debug(self, event: str, **facts: object) -> None:
        if self.enabled(logging.DEBUG):
            self._logger._log(logging.DEBUG, Said(event, facts), ())

    def info(self, event: str, **facts: object) -> None:
        if self.enabled(logging.INFO):
            self._logger._log(logging.INFO, Said(event, facts), ())

    def warning(self, event: str, **facts: object) -> None:
        if self.enabled(logging.WARNING):
            self._logger._log(logging.WARNING, Said(event, facts), ())

    def error(self, event: str, **facts: object) -> None:
        if self.enabled(logging.ERROR):
            self._logger._log(logging.ERROR, Said(event, facts), ())

    def crashed(self, event: str, error: BaseException, **facts: object) -> None:
        """An error nobody expected, with its traceback."""
        if self.enabled(logging.ERROR):
            self._logger._log(logging.ERROR, Said(event, {**facts, "error": error}), (), exc_info=error)

    def once(self, event: str, **facts: object) -> None:
        """A warning that is true of every repetition too, and said the first time only."""
        key = str(Said(event, facts))
        if key in self._once or len(self._once) >= LOG_ONCE_KEYS_MAX:
            return
        self._once[key] = None
        self.warning(event, **facts)


def get(name: str) -> Log:
    """The log of a room: `log = get("topic")`."""
    return Log(name)


def configure(*, json: bool, level: str) -> None:
    """Write to standard error from `level` up. Needs structlog, which comes with the broker; called once, by whoever
    owns the process."""
    if level.lower() not in LEVELS:
        raise Misuse(f"the log level is one of {', '.join(LEVELS)}", level=level)
    import structlog

    handler = logging.StreamHandler()
    plain = structlog.dev.ConsoleRenderer(colors=handler.stream.isatty())  # a file is no place for escape codes
    renderer: Any = structlog.processors.JSONRenderer(default=str) if json else plain
    before: list[Any] = [_facts, structlog.stdlib.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]
    if json:
        before.append(structlog.processors.format_exc_info)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    for name in (ROOT, *FOREIGN):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(LEVELS[level.lower()])


def _facts(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    event["room"] = record.name.removeprefix(ROOT + ".")
    if isinstance(record.msg, Said):
        event["event"] = record.msg.event
        for key, value in record.msg.facts.items():
            event.setdefault(key, _fact(value))
    return event


def _fact(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _plain(value)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
