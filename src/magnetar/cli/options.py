"""Options that many commands share: addresses of the broker, output, and how to make a change.

Precedence: flag, environment, context, client.conf, default (`settings/resolve.py`, `settings/sources.py`). Options may
stand before the noun or after the verb.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, validators

from magnetar.base.errors import Misuse, Refused
from magnetar.cli.output.output import Form, Output

if TYPE_CHECKING:
    from magnetar.cli.session import CommandSession

EVERYWHERE = Group("Every command", sort_key=20)
CHANGING = Group("Changes", sort_key=10)


def flag(text: str, *names: str) -> Parameter:
    return Parameter(name=list(names) or None, help=text, negative="", show_default=False)


@Parameter(name="*", group=EVERYWHERE)
@dataclass(frozen=True)
class Common:
    """Addresses of the broker, authentication and output."""

    url: Annotated[str, Parameter(env_var="MAGNETAR_URL", help="URL that clients connect to.")] = (
        "pulsar://localhost:6650"
    )
    admin_url: Annotated[str, Parameter(env_var="MAGNETAR_ADMIN_URL", help="URL of the REST interface.")] = (
        "http://localhost:8080"
    )
    token: Annotated[
        str | None,
        Parameter(
            env_var="MAGNETAR_TOKEN",
            help="Token for authentication. The process list shows flags: prefer MAGNETAR_TOKEN or a context.",
            show_default=False,
        ),
    ] = field(default=None, repr=False)
    output: Annotated[
        Form,
        Parameter(
            name=["--output", "-o"],
            env_var="MAGNETAR_OUTPUT",
            help="Output format. table: for people, plain text in a pipe. json, yaml: the REST document. jsonl: one "
            "line per row. csv: exact values. name: one name per line.",
        ),
    ] = "table"
    timeout: Annotated[
        float,
        Parameter(
            env_var="MAGNETAR_TIMEOUT",
            validator=validators.Number(gt=0),
            help="Timeout in seconds, for each request and for long-running operations.",
        ),
    ] = 30.0
    context: Annotated[
        str | None,
        Parameter(
            env_var="MAGNETAR_CONTEXT",
            help="Context to use for addresses and token. Flags and environment variables take precedence. Default: "
            "the current context (magnetar context use).",
            show_default=False,
        ),
    ] = None
    client_conf: Annotated[
        str | None,
        Parameter(
            env_var=["MAGNETAR_CLIENT_CONF", "PULSAR_CLIENT_CONF"],
            help="Pulsar client.conf with values for settings that the context does not set.",
            show_default=False,
        ),
    ] = None
    no_color: Annotated[bool, flag("Disable colours. NO_COLOR in the environment does the same.")] = False
    no_input: Annotated[bool, flag("Never prompt for input.")] = False
    quiet: Annotated[bool, flag("Do not print steps to standard error. Errors are still printed.", "--quiet", "-q")] = (
        False
    )
    sink: Annotated[Output | None, Parameter(parse=False)] = None  # output of a watched command

    @property
    def out(self) -> Output:
        """Standard output, in the requested format."""
        return Output(self.output, colors=self.colors) if self.sink is None else self.sink

    @property
    def colors(self) -> bool:
        return not self.no_color and not os.environ.get("NO_COLOR")

    def session(self, change: Change | None = None, *, unless: type[Refused] | None = None) -> CommandSession:
        """`unless`: an error of the broker which means that the work is already done."""
        from magnetar.cli.session import CommandSession

        return CommandSession(self, change, unless=unless)


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Traffic:
    """Options of a command that sends or receives messages while it runs."""

    dry_run: Annotated[bool, flag("Show the planned work and do nothing.")] = False


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Change:
    """Options of a command that makes a change."""

    dry_run: Annotated[bool, flag("Show the planned changes and change nothing.")] = False
    wait: Annotated[
        bool,
        Parameter(
            negative="--no-wait",
            help="Wait until the operation has finished. With --no-wait, return as soon as the broker has accepted it.",
        ),
    ] = True
    sure: Annotated[
        bool,
        flag("Skip the confirmation. Without a terminal, commands that ask for one require this flag.", "--yes", "-y"),
    ] = False

    @property
    def yes(self) -> bool:
        return True


@Parameter(name="*", group=CHANGING)
@dataclass(frozen=True)
class Destruction(Change):
    """Options of a command that cannot be undone: it asks for confirmation."""

    @property
    def yes(self) -> bool:
        return self.sure


IfNotExists = Annotated[bool, flag("Do nothing if it already exists.")]
IfExists = Annotated[bool, flag("Do nothing if it does not exist.")]
Properties = Annotated[
    list[str] | None, Parameter(name=["--property", "-p"], negative="", help="Property as name=value (repeatable).")
]


def properties(pairs: list[str] | None) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Misuse("a property must be name=value", property=pair)
        values[name] = value
    return values


COMMON = Common()
TRAFFIC = Traffic()
CHANGE = Change()
DESTRUCTION = Destruction()
