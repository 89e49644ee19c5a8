"""What the real clients of a simulated world did and saw: an append-only list of lines, as text one JSON object a line.

A client process writes a line when it begins an operation and another when it knows the outcome. The checkers in
`simulation.check` read the lines and nothing else, so a history can be kept and judged again. Values are unique: a
message is `producer|key|number`, which its payload repeats. The recorded load of the crash test, which speaks frames,
has a history of its own (`simulation.crash.history`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from magnetar.base.errors import MagnetarError, Outcome

Place = tuple[int, int, int]  # ledger, entry, index inside the batch (0 where there is none)

INVOKE, OK, FAIL, UNKNOWN = "invoke", "ok", "fail", "unknown"
PHASES = (INVOKE, OK, FAIL, UNKNOWN)  # FAIL: for sure nothing happened; UNKNOWN: it may have happened, now or later

# Operations, and what their lines carry beside topic and process.
TOPIC = "topic"  # what a topic is: facts deduplication, kept (nothing of it is ever trimmed), scalable
SEND = "send"  # value, session (one producer object), epoch (reattachments), place; facts name, sequence, by_key, due
# Places in scalable topics: lines of SEND, RECEIVE and ACK have the fact `segment` too.
SUBSCRIBE = "subscribe"  # subscription, session; facts type, earliest
RECEIVE = "receive"  # subscription, value, place, session (one consumer object), epoch (its attachments)
ACK = "ack"  # subscription, place, session; facts cumulative, confirm (then a second line: the broker's receipt)
BURY = "bury"  # subscription, value; to the dead letters
NACK = "nack"  # subscription, place, session; asked for again
ACTIVE = "active"  # subscription, session: a Failover consumer was notified that it is the active one
SEEK = "seek"  # subscription, session, place: the first message wanted (None: the first there is); facts since: what
# was sent before is passed over (by_time: also what stands before it), acks_kept: who has a message may acknowledge it
UNSUBSCRIBE = "unsubscribe"  # subscription, session
CLOSE = "close"  # subscription, session: a consumer leaves
CREATE = "create"
DELETE = "delete"
TERMINATE = "terminate"  # place: the last position there will ever be
SETTLE = (
    "settle"  # subscription: its consumers came to the end in a healed world; facts attachments: the present consumers
)
DRAIN = "drain"  # subscription: after all others left, one fresh consumer reads from `invoke` to the end at `ok`
LIST = "list"  # facts subscriptions (of the topic), or topics
SET = "set"  # facts key, to: one is set by an operator
TOLD = "told"  # facts key, to: what a broker of a healed world says that it is (None: nothing)
FAULT = "fault"  # a fault was injected: facts say which
SAMPLE = "sample"  # process is what is measured; facts measured, limit

# Of scalable topics. The world itself records what the stores hold, at every change (`observe/store_recorder.py`).
MIGRATE = "migrate"  # a plain topic is to become a scalable one, by an operator; ok: it is one
RESHAPE = "reshape"  # asked for by an operator: facts kind, segments
RECORD = "record"  # epoch; facts term, incarnation, lifecycle, next_id, intent (its operation), children (its), and
# segments: id -> [start, end of the range, state, parents, final ledger and entry or None], and plain: those of them
# that are plain topics, if any
STREAM = "stream"  # subscription; facts life, seeks (how often it was moved), latched, holds: [segment, who has it],
# durable: segment -> [end, mark on disk] of those that were latched just now, where anybody knows
SEGMENT = "segment"  # one as its owner keeps it: facts segment, term, end (ledger and entry, None: it takes messages)
PROBE = "probe"  # facts segment: a message for it was stored in a healed world, or not
INVENTORY = (
    "inventory"  # at rest: facts listed (segment ids), roots (of them), intent, lifecycle, subscriptions, unready
)
# (creation or removal with an unknown outcome), cursors: id -> names
# Of readers with checkpoints, which have no subscription: facts reader.
READ_FROM = "read from"  # session; facts checkpoint: its name, "" for the beginning of the topic
READ = "read"  # value, place, session; facts segment
KEPT = "kept"  # session; facts checkpoint: everything that this session has seen so far
READ_ALL = "read all"  # session: in a healed world it came to the end
GAP = "gap"  # session; facts hold, segments: messages behind its position were deleted, and it begins again
HOLD = "hold"  # as the store has it: facts hold, warned, expired, notice_s: how long its end is announced before
LAYOUT = "layout"  # session: one watch, or one consumer's share; facts at: [epoch, generation] it goes by from now on


PADDING = b"x"


KEYLESS = "#"  # begins what stands in the place of a key where a message has none


class Value(NamedTuple):
    producer: str
    key: str
    number: int

    @property
    def sent_key(self) -> str | None:
        """The key of the message; None if the key here only distinguishes it from all others."""
        return None if self.key.startswith(KEYLESS) else self.key

    @property
    def payload(self) -> bytes:
        return f"{self.producer}|{self.key}|{self.number}".encode()

    def padded(self, size: int) -> bytes:
        """The same, at least so long: what is larger than a sector can be torn."""
        return self.payload if size <= 0 else self.payload + b"|" + PADDING * size

    def __str__(self) -> str:
        return f"{self.producer}|{self.key}|{self.number}"


@lru_cache(maxsize=1 << 16)
def value_of(payload: bytes) -> Value | None:
    """None: no client of the world ever sent this."""
    try:
        producer, key, number, *rest = payload.decode().split("|")
        whole = not rest or (len(rest) == 1 and not rest[0].strip(PADDING.decode()))
        return Value(producer, key, int(number)) if whole else None
    except ValueError:  # UnicodeDecodeError is one too
        return None


class Line(NamedTuple):
    number: int
    at: float  # virtual seconds
    process: str
    operation: str
    phase: str
    topic: str = ""
    subscription: str = ""
    value: Value | None = None
    place: Place | None = None
    session: int = 0
    epoch: int = 0
    error: str = ""  # the class of the error
    facts: Mapping[str, Any] = MappingProxyType({})

    def __str__(self) -> str:
        """For people: one row of a story."""
        head = f"{self.number:>5} {self.at:>9.3f} {self.process:<12} {self.operation:<11} {self.phase:<7}"
        rest = [self.topic.rsplit("/", 1)[-1], self.subscription, "" if self.value is None else str(self.value)]
        if self.place is not None:
            rest.append("{}:{}:{}".format(*self.place))
        if self.session:
            rest.append(f"session {self.session}.{self.epoch}")
        rest += [self.error, *(f"{key}={found}" for key, found in self.facts.items())]
        return f"{head} {' '.join(part for part in rest if part)}"


class History:
    """`clock` is the virtual time; without one every line is at 0. `heard` is called with every line."""

    def __init__(self, clock: Callable[[], float] | None = None, heard: Callable[[Line], None] | None = None) -> None:
        self.lines: list[Line] = []
        self.digest: tuple[int, Any] = (-1, None)  # the index over this number of lines, for the next checker
        self._clock = clock or (lambda: 0.0)
        self._heard = heard
        self._sessions = 0

    def __len__(self) -> int:
        return len(self.lines)

    def session(self) -> int:
        """A number for a producer or consumer object."""
        self._sessions += 1
        return self._sessions

    def note(
        self,
        process: str,
        operation: str,
        phase: str,
        topic: str = "",
        *,
        subscription: str = "",
        value: Value | None = None,
        place: Place | None = None,
        session: int = 0,
        epoch: int = 0,
        error: str = "",
        **facts: Any,
    ) -> Line:
        assert phase in PHASES, phase
        line = Line(
            len(self.lines),
            self._clock(),
            process,
            operation,
            phase,
            topic,
            subscription,
            value,
            place,
            session,
            epoch,
            error,
            facts,
        )
        self.lines.append(line)
        if self._heard is not None:
            self._heard(line)
        return line

    def failed(self, process: str, operation: str, error: BaseException, topic: str = "", **more: Any) -> Line:
        """FAIL if the error says that nothing happened; UNKNOWN for any other error, also one of another library."""
        definite = isinstance(error, MagnetarError) and error.outcome is Outcome.DEFINITE
        return self.note(process, operation, FAIL if definite else UNKNOWN, topic, error=type(error).__name__, **more)

    # As text

    def dump(self) -> str:
        return "".join(f"{json.dumps(_plain(line), separators=(',', ':'))}\n" for line in self.lines)

    @staticmethod
    def load(text: str) -> History:
        """Raises ValueError for an invalid line, or one out of sequence."""
        history = History()
        for row in text.splitlines():
            line = _line(json.loads(row))
            if line.number != len(history.lines) or line.phase not in PHASES:
                raise ValueError(f"line {len(history.lines)} of a history is missing or wrong: {row[:200]}")
            history.lines.append(line)
            history._sessions = max(history._sessions, line.session)
        return history

    def story(self, topic: str = "") -> Iterator[str]:
        """For people: what concerns a topic, one row a line."""
        for line in self.lines:
            if not topic or line.topic in ("", topic):
                yield str(line)


def _plain(line: Line) -> dict[str, Any]:
    """Without what is empty."""
    return {name: found for name, found in line._asdict().items() if found not in (None, "", {}) or name == "process"}


def _line(plain: dict[str, Any]) -> Line:
    try:
        if "value" in plain:
            plain["value"] = Value(*plain["value"])
        if "place" in plain:
            ledger, entry, index = plain["place"]
            plain["place"] = (ledger, entry, index)
        return Line(**plain)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a line of a history: {plain}") from error
