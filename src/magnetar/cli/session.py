"""One run of a command against a broker: the admin client, the steps, the dry run, and the confirmation.

Steps go to standard error for people. They go to standard output as JSON if JSON was requested and the broker sends no
document of its own. A dry run sends all reads and no changes: its transport blocks every change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx2
import msgspec

from magnetar.base.errors import ConnectionLost, MagnetarError, Misuse, NotFound, Refused
from magnetar.cli import connect
from magnetar.cli.confirm import confirm
from magnetar.cli.exit_codes import ErrorWithHint
from magnetar.cli.help.hints import advise
from magnetar.cli.help.suggestions import Subject, instead, near
from magnetar.cli.output.formats import Part, TableData
from magnetar.cli.output.values import age

if TYPE_CHECKING:
    from magnetar.cli.options import Change, Common
    from magnetar.client.admin.responses import RestResponse

T = TypeVar("T")

ELSEWHERE = "the same command with --admin-url (MAGNETAR_ADMIN_URL) set to the REST port, usually 8080"


class CommandSession:
    """`with common.session(...) as session:`, then `session.admin`, `session.show`, `session.do`."""

    def __init__(self, common: Common, change: Change | None = None, *, unless: type[Refused] | None = None) -> None:
        from magnetar.client.admin.sync.admin import Admin

        self.common = common
        self.output = common.out
        self.subject = Subject()
        self.steps: list[dict[str, Any]] = []
        self._change = change
        self._unless = unless
        self._answered = False
        self._in_line = False  # whether a line of standard error is incomplete
        self._description: tuple[Part, ...] = ()
        self._last: RestResponse | None = None
        self.admin = Admin(
            common.admin_url,
            token=common.token,
            timeout_s=common.timeout,
            on_answer=self._heard,
            transport=DryRunTransport() if self.is_dry else None,
        )

    @property
    def is_dry(self) -> bool:
        return self._change is not None and self._change.dry_run

    @property
    def document(self) -> bytes:
        """The last answer as REST returned it."""
        return b"null" if self._last is None else self._last.body

    @property
    def now_ms(self) -> int | None:
        """The time of the broker's clock."""
        date = None if self._last is None else self._last.headers.get("date")
        try:
            return None if date is None else round(parsedate_to_datetime(date).timestamp() * 1000)
        except ValueError:
            return None

    def about(
        self,
        *,
        tenant: str | None = None,
        namespace: str | None = None,
        topic: str | None = None,
        subscription: str | None = None,
    ) -> None:
        """Sets the subject of this run, so that an error for a wrong name suggests similar names."""
        self.subject = Subject(tenant, namespace, topic, subscription)

    def show(
        self,
        document: Any,
        *parts: Part,
        lines: Any = None,
        names: Sequence[str] | None = None,
        table: Part | None = None,
    ) -> None:
        self._answered = True
        self.output.show(document, *parts, lines=lines, names=names, table=table)

    # Changing

    @property
    def waits(self) -> bool:
        """Whether the command waits for the end of operations."""
        return self._change is None or self._change.wait

    @property
    def took_ms(self) -> float:
        """The duration of the last request."""
        return 0.0 if self._last is None else round(self._last.took_s * 1000, 1)

    def describe(self, *parts: Part) -> None:
        """Describes a change in a dry run, for people. Programs get its requests."""
        if self.is_dry:
            self._description = parts

    def do(self, what: str, call: Callable[[], T]) -> T | None:
        """One step that is complete when the broker answers. None in a dry run."""
        result = self.attempt(what, call)
        if not self.steps or "planned" not in self.steps[-1]:
            self.say(f"{what} ✓ {age(self.took_ms / 1000)}")
            self.steps.append({"step": what, "done": True, "ms": self.took_ms})
        return result

    def attempt(self, what: str, call: Callable[[], T]) -> T | None:
        """A change that prints a message only if it fails or in a dry run."""
        try:
            return call()
        except PlannedRequest as planned:
            self.steps.append({"step": what, "planned": planned.request})
            return None
        except MagnetarError:
            self.say(f"{what} ✗")
            raise

    def step(self, step: dict[str, Any], words: str, *, more: bool = False) -> None:
        """Reports one of several steps when it happens: to people, and as a line of JSON with -o jsonl."""
        self.say(words, more=more)
        self.steps.append(step)
        if self.common.output == "jsonl":
            self._answered = True
            self.output.show(step)
            self.output.flush()

    def confirm(self, name: str, loses: str) -> None:
        """Asks for confirmation of an irreversible change: the user types the name or passes --yes."""
        assert self._change is not None
        confirm(name, loses, common=self.common, change=self._change)

    def say(self, words: str, *, more: bool = False) -> None:
        """A line on standard error; with `more`, only its beginning or its middle."""
        if not self.common.quiet:
            sys.stderr.write(words + ("" if more else "\n"))
            sys.stderr.flush()
        self._in_line = more and not self.common.quiet

    # Its beginning and its end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """True: the error means that the change was already made."""
        try:
            if self._in_line:
                self.say("")
            if error is None:
                self._tell_steps()
            elif self._unless is not None and isinstance(error, self._unless):
                self.say(f"nothing to do: {error.what} ✓")
                self.steps.append({"step": error.what, "done": False, "ms": self.took_ms})
                self._tell_steps()
                return True
            elif isinstance(error, ConnectionLost) and connect.speaks_binary(self.common.admin_url):
                wrong = Misuse("--admin-url must not name the port of the binary protocol", url=self.common.admin_url)
                raise ErrorWithHint(wrong, run=ELSEWHERE) from error
            elif isinstance(error, Refused):
                names = near(self.admin, self.subject, error) if isinstance(error, NotFound) else []
                advice = advise(self.subject, error)
                run = instead(self.subject, names) if names else advice.run
                raise ErrorWithHint(error, name=advice.name, near=names, run=run) from error
            return False
        finally:
            self.admin.close()

    def _tell_steps(self) -> None:
        planned = [{"step": step["step"], **step["planned"]} for step in self.steps if "planned" in step]
        if planned:
            words = TableData(("CHANGE",), [(one["step"],) for one in planned], title="Would do:")
            self.show(planned, *(self._description or (words,)), names=self.subject.names)
        elif self.steps and not self._answered and self.common.output != "table":
            self.output.show(self.steps, names=self.subject.names)

    def _heard(self, answer: RestResponse) -> None:
        if answer.status < 300:
            self._last = answer
            self.output.now_ms = self.now_ms


@dataclass
class PlannedRequest(Exception):
    """A change that a dry run does not send."""

    request: dict[str, Any]


class DryRunTransport(httpx2.BaseTransport):
    """Sends reads and blocks changes."""

    def __init__(self) -> None:
        self._below = httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return self._below.handle_request(request)
        body = request.read()
        path = request.url.raw_path.decode()
        raise PlannedRequest(
            {"method": request.method, "path": path, "body": msgspec.json.decode(body) if body else None}
        )

    def close(self) -> None:
        self._below.close()
