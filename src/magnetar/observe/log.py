"""The structured log: events with fields, `log.info("segment_sealed", segment=3, end=pos)`, never sentences.

It uses only the standard library's logging, where a line reads `segment_sealed segment=3 end=7:41`. A node calls
`configure` once and then renders through structlog, for people or as one JSON object per line. A call below the level
costs one comparison; fields become text only when a line is written. If a program configures no logging, warnings of
the client go to standard error, as with other libraries; all other lines are dropped.

Values may come from peers: each is truncated to a maximum length, and characters that could move a terminal's cursor
are escaped. A configured log writes a limited number of lines of one kind per second, and then the number of dropped
lines.
"""

from __future__ import annotations

import io
import logging
import textwrap
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

from magnetar.base.errors import Misuse
from magnetar.base.limits import LOG_LINES_PER_S_MAX, LOG_ONCE_KEYS_MAX, LOG_TRACE_CHARS_MAX, LOG_VALUE_CHARS_MAX
from magnetar.observe.limiter import LineLimiter

ROOT = "magnetar"
FOREIGN = ("uvicorn", "asyncio")  # libraries of the node: their lines have our format, never raw text in between
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

CLIENT = f"{ROOT}.client"


class ClientWarnings(logging.Handler):
    """Shows warnings of the client if the program has no handler of its own. Any other handler on our logger or on the
    root logger replaces it, even a `NullHandler`.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        last = logging.lastResort
        alone = not logging.getLogger().handlers and logging.getLogger(ROOT).handlers == [self]
        if alone and last is not None and record.name.startswith(CLIENT):
            last.handle(record)


logging.getLogger(ROOT).addHandler(ClientWarnings())


class LogEvent:
    """One log line: its event and its fields. `counted`: the number of such lines is bounded, independent of peers."""

    __slots__ = ("counted", "event", "facts")

    def __init__(self, event: str, facts: Mapping[str, object], *, counted: bool = False) -> None:
        self.event = event
        self.facts = facts
        self.counted = counted

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
            self._logger._log(logging.DEBUG, LogEvent(event, facts), ())

    def info(self, event: str, **facts: object) -> None:
        if self.enabled(logging.INFO):
            self._logger._log(logging.INFO, LogEvent(event, facts), ())

    def warning(self, event: str, **facts: object) -> None:
        if self.enabled(logging.WARNING):
            self._logger._log(logging.WARNING, LogEvent(event, facts), ())

    def error(self, event: str, **facts: object) -> None:
        if self.enabled(logging.ERROR):
            self._logger._log(logging.ERROR, LogEvent(event, facts), ())

    def crashed(self, event: str, error: BaseException, **facts: object) -> None:
        """An unexpected error, with its traceback."""
        if self.enabled(logging.ERROR):
            self._logger._log(logging.ERROR, LogEvent(event, {**facts, "error": error}), (), exc_info=error)

    def once(self, event: str, **facts: object) -> None:
        """A warning that also applies to repetitions, and is written only the first time."""
        key = str(LogEvent(event, facts))
        if key in self._once or len(self._once) >= LOG_ONCE_KEYS_MAX:
            return
        self._once[key] = None
        if self.enabled(logging.WARNING):
            self._logger._log(logging.WARNING, LogEvent(event, facts, counted=True), ())


def get(name: str) -> Log:
    """The log of a component: `log = get("topic")`."""
    return Log(name)


def configure(*, json: bool, level: str) -> None:
    """Writes to standard error from `level` up. Requires structlog, which the broker installs. Called once, by the
    owner of the process.
    """
    if level.lower() not in LEVELS:
        raise Misuse(f"the log level must be one of {', '.join(LEVELS)}", level=level)
    import structlog

    handler = Limited()
    plain = structlog.dev.ConsoleRenderer(
        colors=handler.stream.isatty(),  # a file must not contain escape codes
        exception_formatter=_traceback,  # other formatters show local variables, which may contain tokens
    )
    renderer: Any = structlog.processors.JSONRenderer(default=str) if json else plain
    before: list[Any] = [_facts, structlog.stdlib.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]
    if json:
        before.append(structlog.processors.format_exc_info)
        before.append(_cut_traceback)
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


class Limited(logging.StreamHandler[TextIO]):
    """Writes to standard error, with a limit of lines of one kind per second; dropped lines are counted in a separate
    line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._limiter = LineLimiter(LOG_LINES_PER_S_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        self.settle(record.created)
        event = record.msg
        kind = f"{record.name}: {event.event if isinstance(event, LogEvent) else event}"
        if (isinstance(event, LogEvent) and event.counted) or self._limiter.admit(
            kind[:LOG_VALUE_CHARS_MAX], record.created
        ):
            super().emit(record)

    def settle(self, now_s: float) -> None:
        """Reports lines that were dropped until a second ago."""
        for kind, dropped in self._limiter.overdue(now_s):
            event = LogEvent("log_lines_dropped", {"of": kind, "lines": dropped})
            super().emit(logging.LogRecord(ROOT + ".log", logging.WARNING, "", 0, event, (), None))


def settle(now_s: float) -> None:
    """The owner of the log calls it regularly: it reports dropped lines even if no new line is written."""
    for handler in logging.getLogger(ROOT).handlers:
        if isinstance(handler, Limited):
            handler.settle(now_s)


def visible(text: str, keep: str = "") -> str:
    """Replaces characters that could move a cursor or change text direction by escapes; keeps those in `keep`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)


def _traceback(written: TextIO, exc_info: Any) -> None:
    import structlog

    whole = io.StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    # Indented: a peer's text quoted by an error must not look like a log line.
    written.write(textwrap.indent(_cut(visible(whole.getvalue(), keep="\n"), LOG_TRACE_CHARS_MAX), "  "))


def _cut_traceback(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if "exception" in event:
        event["exception"] = _cut(visible(event["exception"], keep="\n"), LOG_TRACE_CHARS_MAX)
    return event


def _facts(logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    event["component"] = record.name.removeprefix(ROOT + ".")
    if isinstance(record.msg, LogEvent):
        event["event"] = record.msg.event
        for key, value in record.msg.facts.items():
            event.setdefault(key, _fact(value))
    else:
        event["event"] = _plain(event["event"])
    return event


def _fact(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return _cut(value[: LOG_VALUE_CHARS_MAX + 1].hex(), LOG_VALUE_CHARS_MAX)
    return visible(_cut(str(value), LOG_VALUE_CHARS_MAX))


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}... ({len(text)} characters)"
